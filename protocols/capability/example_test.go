package capability_test

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// A node's owner mints a token for storing objects. Its bearer narrows it without
// the key, and the node verifies a request that shows it.
func Example() {
	now := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	ring, err := capability.Ring{}.Rotate(now)
	if err != nil {
		fmt.Println(err)
		return
	}
	parse := func(s string) capability.Caveat {
		c, err := capability.ParseCaveat(s)
		if err != nil {
			fmt.Println(err)
		}
		return c
	}
	minted, err := ring.Mint(now, parse("op in put,pin"), parse("exp < 2026-01-03T15:00:00Z"))
	if err != nil {
		fmt.Println(err)
		return
	}
	narrowed, err := capability.Attenuate(minted, parse("op in put"), parse("bytes <= 1MiB"))
	if err != nil {
		fmt.Println(err)
		return
	}

	info, _ := capability.Inspect(narrowed)
	fmt.Println(info.Ops, info.MaxBytes, info.Expires)

	verifier := capability.NewVerifier("12D3KooW", func() time.Time { return now },
		limits.NewRegistry(prometheus.NewRegistry()))
	verifier.Set(ring, capability.Revocations{})
	put := capability.Request{Op: capability.Put, Object: b3.Sum(nil), Method: "PUT", Bytes: 1 << 10}
	grant, err := verifier.Verify(narrowed, put)
	fmt.Println(grant.MaxBytes, err)
	put.Bytes = 2 << 20
	_, err = verifier.Verify(narrowed, put)
	fmt.Println(status.Of(err), capability.RefusalOf(err), err)
	// Output:
	// [put] 1048576 2026-01-03 15:00:00 +0000 UTC
	// 1048576 <nil>
	// forbidden caveat_bytes the capability allows 1048576 bytes in one request, not 2097152
}
