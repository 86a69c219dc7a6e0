package kad_test

import (
	"fmt"
	"time"

	"allium/protocols/kad"
)

// A driver carries out one lookup by hand, in virtual time. Peer 0x40 stays silent.
// Peer 0x10 names three closer peers: one of them fails, and one names a provider.
func Example() {
	// A real driver derives keys with kad.Hash. Here a key is one byte, so that
	// distances are easy to see: the target is 0x00, and peer 0x10 is closer than 0x40.
	peer := func(id byte) kad.Peer[byte] { return kad.Peer[byte]{ID: id, Key: kad.Key{id}} }

	cfg := kad.Find()
	cfg.K, cfg.Alpha, cfg.Beta = 3, 2, 1
	lookup, err := kad.New(cfg, kad.Query[byte]{Self: 0xff, Quorum: kad.FirstProvider()})
	if err != nil {
		fmt.Println(err)
		return
	}
	// act prints the actions. A real driver sends a request for each probe and hedge.
	act := func(event string, actions []kad.Action[byte]) {
		fmt.Println(event)
		for _, a := range actions {
			if a.Kind == kad.Done {
				r := lookup.Result()
				fmt.Printf("  done: %v after %v, %d provider, %d probes\n", r.End, r.Took, r.Providers, r.Probes)
				continue
			}
			fmt.Printf("  %v %#02x, hop %d\n", a.Kind, a.Peer.ID, a.Hop)
		}
		if at, running := lookup.Next(); running {
			fmt.Printf("  next tick at %v\n", at)
		}
	}
	const ms = time.Millisecond
	act("0 ms: start with the routing table", lookup.Start(0, []kad.Peer[byte]{peer(0x40), peer(0x10)}))
	closer := kad.Reply[byte]{Closer: []kad.Peer[byte]{peer(0x02), peer(0x03), peer(0x04)}}
	act("80 ms: 0x10 answers with three closer peers", lookup.Answer(80*ms, 0x10, closer))
	act("120 ms: the request to 0x02 fails", lookup.Fail(120*ms, 0x02))
	act("250 ms: 0x40 is late", lookup.Tick(250*ms))
	act("260 ms: 0x03 answers with a provider", lookup.Answer(260*ms, 0x03, kad.Reply[byte]{Providers: 1}))

	// Output:
	// 0 ms: start with the routing table
	//   probe 0x10, hop 1
	//   probe 0x40, hop 1
	//   next tick at 250ms
	// 80 ms: 0x10 answers with three closer peers
	//   probe 0x02, hop 2
	//   next tick at 250ms
	// 120 ms: the request to 0x02 fails
	//   probe 0x03, hop 2
	//   next tick at 250ms
	// 250 ms: 0x40 is late
	//   hedge 0x04, hop 2
	//   next tick at 370ms
	// 260 ms: 0x03 answers with a provider
	//   cancel 0x40, hop 1
	//   cancel 0x04, hop 2
	//   done: satisfied after 260ms, 1 provider, 5 probes
}
