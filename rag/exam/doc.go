// Package exam examines a language model: it says what the model may be trusted with in an answer from passages.
//
//	questions and passages of invented subjects → the prompts of the product → answers, verdicts → Card
//
// Input: a language model, and an encoder, which quotes from the same passages. Output: a Card for each model file or
// server, which the defaults of answers follow: a quote is printed where writing is not at least as often right, and a
// verdict of the model counts only where the model has shown that it can give it.
package exam
