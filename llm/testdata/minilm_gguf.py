"""Writes the folder of a BERT encoder (argv[1], weights in float32) as a GGUF file (argv[2])."""
import json
import sys

import numpy as np
import gguf
from safetensors.numpy import load_file
d = sys.argv[1] + '/'
c=json.load(open(d+'config.json')); t=load_file(d+'model.safetensors')
w=gguf.GGUFWriter(sys.argv[2],'bert')
w.add_name('all-MiniLM-L6-v2'); w.add_context_length(c['max_position_embeddings']); w.add_embedding_length(c['hidden_size'])
w.add_block_count(c['num_hidden_layers']); w.add_feed_forward_length(c['intermediate_size']); w.add_head_count(c['num_attention_heads'])
w.add_layer_norm_eps(c['layer_norm_eps']); w.add_causal_attention(False); w.add_pooling_type(gguf.PoolingType.MEAN)
w.add_token_type_count(2)
tok=json.load(open(d+'tokenizer.json')); v=sorted(tok['model']['vocab'].items(),key=lambda x:x[1])
def form(s):
    if s.startswith('[') and s.endswith(']') and len(s)>2: return s
    return s[2:] if s.startswith('##') else '\u2581'+s
w.add_tokenizer_model('bert'); w.add_tokenizer_pre('default') if hasattr(w,'add_tokenizer_pre') else None
w.add_token_list([form(s) for s,_ in v]); w.add_token_types([3 if form(s)==s and s.startswith('[') and len(s)>2 else 1 for s,_ in v])
id=dict(v)
w.add_bos_token_id(id['[CLS]']); w.add_eos_token_id(id['[SEP]']); w.add_unk_token_id(id['[UNK]']); w.add_sep_token_id(id['[SEP]']); w.add_pad_token_id(id['[PAD]']); w.add_mask_token_id(id['[MASK]'])
m={'embeddings.word_embeddings':'token_embd','embeddings.position_embeddings':'position_embd','embeddings.token_type_embeddings':'token_types','embeddings.LayerNorm':'token_embd_norm'}
for i in range(c['num_hidden_layers']):
    p=f'encoder.layer.{i}.'
    for a,b in {'attention.self.query':'attn_q','attention.self.key':'attn_k','attention.self.value':'attn_v','attention.output.dense':'attn_output','attention.output.LayerNorm':'attn_output_norm','intermediate.dense':'ffn_up','output.dense':'ffn_down','output.LayerNorm':'layer_output_norm'}.items(): m[p+a]=f'blk.{i}.{b}'
for k,x in t.items():
    k=k.removeprefix('bert.'); base,_,kind=k.rpartition('.')
    if base in m: w.add_tensor(m[base]+'.'+kind, np.ascontiguousarray(x.astype(np.float32)))
    else: print('skip',k)
w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
