import sys,time; sys.path.insert(0,"benchmarks")
import os
import numpy as np
from numba import cuda
import bench_gpu as b
from rankwright.gpu import card, products
from rankwright.gpu.arranged import Arranged
from rankwright.gpu.hinge import CudaHinge
from rankwright.objectives.structured import equal_blocks
sys.path.insert(0,"tests/gpu")
import hinge_cases as hc
T=time.perf_counter
t=T(); data=b.make(int(sys.argv[1]) if len(sys.argv)>1 else b.QUERIES,16); print("make",T()-t, data.n_docs, "longest", data.sizes.max(), np.bincount(np.ceil(np.log2(data.sizes)).astype(int)))
bw=b.copy_bandwidth(); print("bw",bw/1e12)
b.measure_upload(data.X)
b.measure_scoring(data.X,bw,1)
Xd=card.upload(data.X); rows=card.upload(np.arange(data.n_docs))
nq=data.n_queries; blocks=equal_blocks(nq,112)
w=np.random.default_rng(0).normal(size=136)*0.02
good=(data.labels>=1).astype(float); useful=data.has_both(1)
for name in ("pairs","map","ndcg@3","ndcg","auc","mrr@4","mrr","clicks","dorm"):
    a=Arranged(Xd,rows,data.indptr)
    lab=data.labels.astype(float) if name in("pairs","dorm") else good
    orc=hc.oracle_of(name) if name!="ndcg@3" else None
    if orc is None:
        from rankwright.rankers.losses import parse_losses
        l=parse_losses("ndcg@10")[0]; orc=l.measure.oracle(None)
    t=T(); h=CudaHinge(a,range(data.n_docs),card.upload(lab),data.indptr,orc,useful/nq,np.ones(136),blocks,16); t1=T()-t
    t=T(); h.evaluate(w); t2=T()-t
    c=h._cost_there(h.cost)
    o=b.timed(lambda: h._launch(h._kernel,h._kernel_labels,c,h._nothing),3)
    per=[]
    for one in h._launches:
        all_=h._launches; h._launches=[one]; per.append(f"{one.grid}x{one.threads}:{b.timed(lambda: h._launch(h._kernel,h._kernel_labels,c,h._nothing),2)*1e3:.2f}"); h._launches=all_
    key=len(blocks); bounds,ob,sums,found=a._segments[key]
    p=b.timed(lambda: (products.add_segments[len(bounds)-1,160](a.X,a.rows,a.coef,bounds,0,sums)),3)
    p2=b.timed(lambda: products.add_to_blocks[len(blocks)-1,160](sums,ob,h._scaling,found),3)
    w2=[w,w*1.01]
    t=T()
    for i in range(6): h.evaluate(w2[i%2])
    t3=(T()-t)/6
    print(f"{name}: build {t1:.2f} first {t2:.2f}; oracle {o*1e3:.2f} ms {per}; planes {p*1e3:.2f}+{p2*1e3:.2f} ms; evaluate wall {t3*1e3:.2f} ms; value {h.value(w):.6f}", flush=True)
