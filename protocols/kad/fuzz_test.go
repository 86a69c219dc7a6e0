package kad

import (
	"encoding/binary"
	"testing"
	"time"
)

// FuzzLies has the network answer whatever the input says: peers that were
// never asked, itself, duplicates, farther peers, thousands of them, negative
// counts, and times that run backwards. The harness checks the invariants.
func FuzzLies(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x00\x01\x00\x00\x10\x01\x02\x00\x00\x20\x02\x03\x01\x01\x00\x03\x00\x07\xff\x01"))
	f.Add([]byte("\x04\x01\x10\x00\x10\x04\x02\x10\x00\x10\x04\x03\x10\x00\x10\x04\x04\x10\x00\x10"))
	f.Add([]byte("\x02\x00\x00\xff\xff\x03\x00\x01\x00\x10\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		cfg := Find()
		if len(in) > 0 && in[0]&0x80 != 0 {
			cfg = Publish()
		}
		cfg.K = 4
		const self = 0
		h := newHarness(t, cfg, Query[uint16]{Target: Hash([]byte("target")), Self: self, Quorum: Providers(3)})
		flight := h.begin(0, peersOf(0, 1, 2, 3, 3, 4, 5))
		var now time.Duration
		in = in[:min(len(in), 1000)] // 200 events
		for ; len(in) >= 5; in = in[5:] {
			now += time.Duration(int16(binary.BigEndian.Uint16(in[3:]))) * time.Millisecond / 64
			from := uint16(in[1])
			if in[0]&0x40 == 0 && len(flight) > 0 { // somebody who was asked
				from = flight[int(in[1])%len(flight)].ID
			}
			var r Reply[uint16]
			switch in[0] & 0x07 {
			case 0: // peers near that number
				r.Closer = peersOf(uint16(in[2]), uint16(in[2])+1, uint16(in[2])+2)
			case 1: // itself, us, and one peer many times
				r.Closer = peersOf(from, self, 7, 7, 7, from)
			case 2: // a provider
				r.Providers = int(int8(in[2]))
			case 3:
				flight = append(flight, h.fail(now, from)...)
				continue
			case 4: // thousands, ever new
				for i := range uint16(3000) {
					r.Closer = append(r.Closer, peerOf(uint16(in[2])<<8+i))
				}
			default:
				flight = append(flight, h.tick(now)...)
				continue
			}
			flight = append(flight, h.answer(now, from, r)...)
		}
		h.tick(h.start + cfg.Deadline)
		if !h.done {
			t.Fatal("no end at the deadline")
		}
		if limit := cfg.K * (1 + cfg.MaxProbes); len(h.l.frontier.list) > limit {
			t.Fatalf("%d peers kept, limit %d", len(h.l.frontier.list), limit)
		}
	})
}
