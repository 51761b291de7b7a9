"""mbarrier phases and counts, multicast, distributed shared memory, cluster barriers, remote arrivals. All bitwise."""

from __future__ import annotations

from vectors.model import Group, Map, Vector, entry, identifier
from vectors.text import REGISTERS, copy_out, fill_shared, store_registers, wait

_REGION = 4096
_PAIR = ".explicitcluster .reqnctapercluster 2, 1, 1"
_SYNC = "  barrier.cluster.arrive.aligned;\n  barrier.cluster.wait.aligned;"
_SETUP = f"""  mov.u32 %r11, smem; add.u32 %r15, %r11, {_REGION}; mov.u32 %r10, %tid.x;
  mov.u32 %r12, %cluster_ctarank; xor.b32 %r13, %r12, 1; setp.eq.u32 %p0, %r10, 0;"""


def _phases(g: Group) -> None:
    """Single-thread stories on one mbarrier; each step's answer is a bit or a count in a register."""
    test = "mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r15], {}; selp.u32 %r{}, 1, 0, %p1;"
    arrive = "mbarrier.arrive.shared::cta.b64 %rd1, [%r15];"
    stories = {
        "fresh": (1, [test.format(0, 20), test.format(1, 21)]),
        "one": (
            1,
            [
                arrive,
                test.format(0, 20),
                test.format(1, 21),
                arrive,
                test.format(0, 22),
                test.format(1, 23),
            ],
        ),
        "three": (
            3,
            [arrive, test.format(0, 20), arrive, test.format(0, 21), arrive, test.format(0, 22)],
        ),
        "count": (
            5,
            ["mbarrier.arrive.shared::cta.b64 %rd1, [%r15], 3;", test.format(0, 20)]
            + ["mbarrier.arrive.shared::cta.b64 %rd1, [%r15], 2;", test.format(0, 21)],
        ),
        "drop": (
            2,
            ["mbarrier.arrive_drop.shared::cta.b64 %rd1, [%r15];", test.format(0, 20), arrive]
            + [test.format(0, 21), arrive, test.format(1, 22)],
        ),
        "state": (
            2,
            [
                arrive,
                "mbarrier.test_wait.shared::cta.b64 %p1, [%r15], %rd1; selp.u32 %r20, 1, 0, %p1;",
            ]
            + ["mbarrier.arrive.shared::cta.b64 %rd2, [%r15];"]
            + ["mbarrier.test_wait.shared::cta.b64 %p1, [%r15], %rd1; selp.u32 %r21, 1, 0, %p1;"],
        ),
        "pending": (
            9,
            [arrive, "mbarrier.pending_count.b64 %r20, %rd1;"]
            + [
                "mbarrier.arrive.shared::cta.b64 %rd1, [%r15], 4;",
                "mbarrier.pending_count.b64 %r21, %rd1;",
            ],
        ),
        "tx": (
            1,
            ["mbarrier.arrive.expect_tx.shared::cta.b64 %rd1, [%r15], 64;", test.format(0, 20)]
            + [
                "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r15], 48;",
                test.format(0, 21),
            ]
            + ["mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r15], 16;", test.format(0, 22)],
        ),
        "expect": (
            1,
            [
                "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r15], 32;",
                arrive,
                test.format(0, 20),
            ]
            + ["mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r15], 32;", test.format(0, 21)],
        ),
        "again": (
            2,
            [
                arrive,
                "mbarrier.inval.shared::cta.b64 [%r15];",
                "mbarrier.init.shared::cta.b64 [%r15], 1;",
            ]
            + [arrive, test.format(0, 20), test.format(1, 21)],
        ),
    }
    registers = [f"%r{20 + i}" for i in range(4)]
    for name, (count, steps) in stories.items():
        body = [REGISTERS, _SETUP, "  mov.b64 %rd1, 0; mov.b64 %rd2, 0;"]
        body += [f"  mov.u32 {r}, 7;" for r in registers]
        body += ["  setp.ne.u32 %p2, %r10, 0;\n  @%p2 bra DONE;"]
        body += [f"  mbarrier.init.shared::cta.b64 [%r15], {count};"]
        body += [f"  {step}" for step in steps] + ["DONE:", store_registers(registers, 32)]
        name = identifier(f"mbarrier.{name}")
        text = entry(name, 0, "\n".join(body))
        g.add(Vector(name, text, (), 512, block=(32, 1, 1), shared=_REGION + 64))


def _pair(g: Group, label: str, body: list[str], inputs=(), maps=()) -> None:
    name = identifier(label)
    lines = [
        REGISTERS,
        fill_shared(_REGION, 0xABABABAB),
        *body,
        _SYNC,
        copy_out(_REGION, each_block=True),
    ]
    text = entry(name, len(inputs), "\n".join(lines), maps=len(maps), directives=_PAIR)
    g.add(
        Vector(
            name,
            text,
            tuple(inputs),
            2 * _REGION,
            grid=(2, 1, 1),
            cluster=(2, 1, 1),
            shared=_REGION + 64,
            maps=tuple(maps),
        )
    )


def _distributed(g: Group) -> None:
    start = [_SETUP, _SYNC]
    map_peer = "  mapa.shared::cluster.u32 %r14, %r11, %r13; mad.lo.u32 %r14, %r10, 4, %r14;"
    value = "  mad.lo.u32 %r16, %r12, 1000, %r10;"
    _pair(g, "dsmem.store", [*start, map_peer, value, "  st.shared::cluster.b32 [%r14], %r16;"])
    _pair(
        g,
        "dsmem.load",
        [
            _SETUP,
            value,
            "  mad.lo.u32 %r17, %r10, 4, %r11; st.shared.b32 [%r17], %r16;",
            _SYNC,
            map_peer,
            "  ld.shared::cluster.b32 %r18, [%r14]; st.shared.b32 [%r17+1024], %r18;",
        ],
    )
    _pair(
        g,
        "dsmem.atom",
        [
            *start,
            map_peer,
            value,
            "  atom.shared::cluster.add.u32 %r18, [%r14], %r16;",
            "  mad.lo.u32 %r17, %r10, 4, %r11; st.shared.b32 [%r17+2048], %r18;",
            "  mapa.shared::cluster.u32 %r14, %r11, %r13; red.shared::cluster.add.u32 [%r14+1024], 3;",
        ],
    )
    _pair(
        g,
        "mapa.generic",
        [
            *start,
            "  cvt.u64.u32 %rd0, %r11; cvta.shared.u64 %rd1, %rd0;",
            "  mapa.u64 %rd2, %rd1, %r13; mad.wide.u32 %rd2, %r10, 4, %rd2;",
            value,
            "  st.b32 [%rd2], %r16;",
            "  getctarank.u64 %r18, %rd2; mad.lo.u32 %r17, %r10, 4, %r11; st.shared.b32 [%r17+1024], %r18;",
        ],
    )
    names = (
        "cluster_ctarank",
        "cluster_nctarank",
        "cluster_ctaid.x",
        "cluster_nctaid.x",
        "clusterid.x",
        "nclusterid.x",
    )
    reads = [
        f"  mov.u32 %r18, %{name}; st.shared.b32 [%r17+{512 * i}], %r18;"
        for i, name in enumerate(names)
    ]
    _pair(g, "cluster.registers", [_SETUP, "  mad.lo.u32 %r17, %r10, 4, %r11;", *reads])
    init = "  @%p0 mbarrier.init.shared::cta.b64 [%r15], {};\n  @%p0 fence.mbarrier_init.release.cluster;"
    _pair(
        g,
        "mbarrier.remote",
        [
            _SETUP,
            init.format(128),
            _SYNC,
            "  mapa.shared::cluster.u32 %r14, %r15, %r13; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r14];",
            wait("%r15", 0, "WAIT"),
            "  mad.lo.u32 %r17, %r10, 4, %r11; selp.u32 %r18, 1, 0, %p6; st.shared.b32 [%r17], %r18;",
        ],
    )
    _pair(
        g,
        "st.async",
        [
            _SETUP,
            init.format(1),
            "  @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r15], 512;",
            _SYNC,
            map_peer,
            value,
            "  mapa.shared::cluster.u32 %r19, %r15, %r13;",
            "  st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r14], %r16, [%r19];",
            wait("%r15", 0, "WAIT"),
        ],
    )


def _multicast(g: Group) -> None:
    issue = (
        "  mov.b32 %w0, {}; mov.b32 %w1, {}; mov.b64 %rd5, map0; cvta.param.u64 %rd6, %rd5; mov.b16 %h0, {};\n"
        "  @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%r11+{}], [%rd6, {{%w0, %w1}}], [%r15], %h0;"
    )
    tensor_map = Map(0, "bf16", (100, 67), (208,), (64, 8), swizzle="128b")
    start = [
        _SETUP,
        "  @%p0 mbarrier.init.shared::cta.b64 [%r15], 1;\n  @%p0 fence.mbarrier_init.release.cluster;",
        "  fence.proxy.async;",
    ]
    expect = "  @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r15], {};"
    first = "  setp.eq.u32 %p2, %r12, {}; and.pred %p1, %p0, %p2;"
    # both blocks of the pair get two boxes, one from each
    body = [*start, expect.format(2048), _SYNC]
    body += [
        first.format(0),
        issue.format(16, 3, 3, 0),
        first.format(1),
        issue.format(40, 62, 3, 2048),
    ]
    body += [wait("%r15", 0, "WAIT")]
    _pair(g, "multicast.both", body, ("count.65536",), (tensor_map,))
    # block 0 sends to block 1 alone
    body = [*start, _SYNC, "  setp.eq.u32 %p3, %r12, 1; and.pred %p3, %p3, %p0;"]
    body += ["  @%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r15], 1024;"]
    body += [first.format(0), issue.format(16, 3, 2, 1024)]
    body += ["  setp.eq.u32 %p3, %r12, 0;\n  @%p3 bra SENDER;", wait("%r15", 0, "WAIT"), "SENDER:"]
    _pair(g, "multicast.peer", body, ("count.65536",), (tensor_map,))
    opcode = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
    body = [
        *start,
        expect.format(512),
        _SYNC,
        first.format(1),
        "  ld.param.u64 %rd6, [p0]; mov.b16 %h0, 3;",
    ]
    body += [f"  @%p1 {opcode} [%r11+256], [%rd6+4096], 512, [%r15], %h0;", wait("%r15", 0, "WAIT")]
    _pair(g, "multicast.bulk", body, ("count.65536",))
    opcode = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
    body = [
        *start,
        "  mad.lo.u32 %r17, %r10, 4, %r11; mad.lo.u32 %r16, %r12, 1000, %r10; st.shared.b32 [%r17], %r16;",
    ]
    body += ["  fence.proxy.async;", expect.format(512), _SYNC]
    body += [
        "  mapa.shared::cluster.u32 %r14, %r11, %r13; mapa.shared::cluster.u32 %r19, %r15, %r13;"
    ]
    body += [f"  @%p0 {opcode} [%r14+1024], [%r11], 512, [%r19];", wait("%r15", 0, "WAIT")]
    _pair(g, "bulk.peer", body)


def group() -> Group:
    g = Group("clusters")
    _phases(g)
    _distributed(g)
    _multicast(g)
    return g
