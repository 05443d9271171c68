// Package learn has the classical text classifiers of rag/route and their features: TF-IDF weights as scikit-learn's
// TfidfVectorizer computes them, dense columns beside them, multinomial and Gaussian naive Bayes, logistic regression
// and a linear support vector classifier. The methods are those of scikit-learn with its default settings, solved to a
// tighter tolerance; everything is deterministic and has the same bits for any number of threads.
//
// Input: Features (rows of texts, columns of terms and of an embedding) and the classes of the rows.
// Output: Model, which gives a score for each row and class.
package learn
