"""Makes malformed checkpoints under h/ in the working folder; the prefix of a name tells the kind of fault."""
import struct, os
from makers import *
os.makedirs('h', exist_ok=True)
for i, n in enumerate((2**64-1, 2**63, 2**40, 2**31)):
    open('h/b1_key%d.gguf' % i, 'wb').write(b'GGUF' + struct.pack('<IQQ', 3, 0, 1) + struct.pack('<Q', n))
    open('h/b1_nt%d.gguf' % i, 'wb').write(b'GGUF' + struct.pack('<IQQ', 3, n, 0))
    open('h/b1_nkv%d.gguf' % i, 'wb').write(b'GGUF' + struct.pack('<IQQ', 3, 0, n))
    tiny_gguf('h/b1_arr%d.gguf' % i, kvo={'tokenizer.ggml.tokens': kv('tokenizer.ggml.tokens', ARR, V, STR, n=n)})
t0 = [(g, [c, r] if c else [r], 0, raw) for _, g, r, c, raw in tensors()]
def mut(path, dims=None, nd=None, **w):
    a = list(t0[0]); a[1] = dims or a[1]; gguf(path, base_kv(), [tuple(a) + ((nd,) if nd is not None else ())] + t0[1:], **w)
mut('h/b2_zero.gguf', [64, 0]); mut('h/b2_neg.gguf', [64, -1]); mut('h/b2_wrap.gguf', [64, 2**58 + 261]); mut('h/b2_nd0.gguf', nd=0); mut('h/b2_nd9.gguf', [1]*9); mut('h/b2_ndmax.gguf', nd=2**32-1)
tiny_gguf('h/b2_emptykey.gguf', kvo={'': kv('', U32, 1)})
for n in (0, 513, 100000, 2**32-1): tiny_gguf('h/b2_blk%d.gguf' % n, kvo={'llama.block_count': kv('llama.block_count', U32, n)})
tiny_gguf('h/b2_head0.gguf', kvo={'llama.attention.head_count': kv('llama.attention.head_count', U32, 0)})
mut('h/b2_offlap.gguf', offs={'output_norm.weight': 0}); mut('h/b2_offodd.gguf', offs={'output_norm.weight': 7}); mut('h/b2_offfar.gguf', offs={'output_norm.weight': 2**63})
gguf('h/b2_dup.gguf', base_kv(), t0 + [t0[1]]); gguf('h/b2_type.gguf', base_kv(), [t0[0][:2] + (200, t0[0][3])] + t0[1:])
tiny_gguf('h/b4_cut.gguf', cut=0.6); tiny_gguf('h/b4_cuthead.gguf', cut=0.01)
tiny_gguf('h/b6_lookup.gguf', kvo={'tokenizer.ggml.tokens': kv('tokenizer.ggml.tokens', ARR, V[:-5], STR)})
tiny_gguf('h/b6_eos.gguf', kvo={'tokenizer.ggml.eos_token_id': kv('tokenizer.ggml.eos_token_id', U32, 99999)})
ts = [(n, r, c, raw) for n, _, r, c, raw in tensors()]
e = len(ts[0][3])
one = lambda a, b, sh='[261, 64]': '{"x": {"dtype": "F32", "shape": %s, "data_offsets": [%d, %d]}}' % (sh, a, b)
for nm, kw in dict(hlen=dict(hlen=2**63), hlen2=dict(hlen=2**40), far=dict(hdr=one(0, 10**12)), rev=dict(hdr=one(e, 0)), short=dict(hdr=one(0, 8)), wrap=dict(hdr=one(0, e, '[4294967296, 4294967296]')),
                   dup=dict(hdr='{"x": {"dtype":"F32","shape":[2],"data_offsets":[0,8]}, "x": {"dtype":"F32","shape":[2],"data_offsets":[8,16]}}'),
                   lap=dict(hdr='{"x": {"dtype":"F32","shape":[2],"data_offsets":[0,8]}, "y": {"dtype":"F32","shape":[2],"data_offsets":[4,12]}}'),
                   notobj=dict(hdr='[1,2]'), deep=dict(hdr='{"a":' * 100000), tail=dict(tail=b'x' * 64), cut=dict(cut=0.6)).items(): st('h/b7_%s.safetensors' % nm, ts, **kw)
nan = bytearray(open('tiny.gguf', 'rb').read()); nan[-4:] = struct.pack('<f', float('nan')); open('h/f4_nan.gguf', 'wb').write(nan)
for hd in (17, 40, 80, 96, 256): tiny_gguf('h/a4_hd%d.gguf' % hd, hd=hd)
print(len(os.listdir('h')), 'made')
