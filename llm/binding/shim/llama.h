// Renames what upstream's binding.cpp defines: see common.h. It comes after common.h and before binding.h there.
#pragma once

#define load_state inert_load_state
#define save_state inert_save_state
#define eval inert_eval
#define load_model inert_load_model
#define get_embeddings inert_get_embeddings
#define get_token_embeddings inert_get_token_embeddings
#define llama_allocate_params inert_allocate_params
#define llama_free_params inert_free_params
#define llama_binding_free_model inert_binding_free_model
#define llama_tokenize_string inert_tokenize_string
#define llama_predict inert_predict
#define speculative_sampling inert_speculative_sampling
#define create_vector inert_create_vector
#define delete_vector inert_delete_vector
#define sigint_handler inert_sigint_handler
