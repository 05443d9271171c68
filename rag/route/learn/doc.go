// Package learn has the classical text classifiers of rag/route and their features: TF-IDF weights as scikit-learn's
// TfidfVectorizer computes them, dense columns beside them, multinomial and Gaussian naive Bayes, logistic regression
// and a linear support vector classifier. The methods follow scikit-learn with its default settings but are solved to a
// tighter tolerance. All results are deterministic and identical bit for bit for any number of threads.
//
// Input: Features (rows of texts, columns of terms and of an embedding) and the classes of the rows.
// Output: Model, which gives a score for each row and class.
package learn
