package name_test

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"

	"allium/protocols/b3"
	"allium/protocols/name"
	"allium/protocols/status"
)

// The owner of a zone publishes a name twice. A reader has both records, in whatever order they
// came, and takes the newer one.
func Example() {
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	key, _, err := crypto.GenerateEd25519Key(bytes.NewReader(bytes.Repeat([]byte{1}, 32)))
	if err != nil {
		fmt.Println(err)
		return
	}
	zone, err := name.ZoneOf(key.GetPublic())
	if err != nil {
		fmt.Println(err)
		return
	}
	label, err := name.ParseLabel("Blog")
	if err != nil {
		fmt.Println(err)
		return
	}
	r := name.Record{Name: name.Name{Label: label, Zone: zone}, TTL: name.DefaultTTL}
	var versions name.Versions
	var envelopes [][]byte
	for _, page := range []string{"first page", "second page"} {
		if r.Value, err = name.ParseValue(b3.Sum([]byte(page)).String()); err != nil {
			fmt.Println(err)
			return
		}
		r.Seq = name.NextSeq(r.Seq, now)
		r.NotAfter = now.Add(name.DefaultLife)
		signed, err := name.Sign(key, r, now)
		if err != nil {
			fmt.Println(err)
			return
		}
		envelopes = append([][]byte{signed.Envelope}, envelopes...)
	}
	for _, envelope := range envelopes { // the newer one first
		signed, err := name.Open(envelope, now.Add(time.Second))
		if err != nil {
			fmt.Println(err)
			return
		}
		versions, _ = versions.Add(signed)
	}
	current, _ := versions.Current()
	fmt.Println(current.Name)
	fmt.Println(current.Value)
	fmt.Println(versions.Equivocates())
	// Output:
	// blog.k51qzi5uqu5djmw2yvf8kk5cdjc1ddc00o4d5sjwi6f79xzcay9j3gkddw5uu4
	// b3:2fd466b82e667424d1c6d87ebc435ce927bd737d97b7f1c1755a8c5752772b42
	// false
}

// Labels that look alike are not in one zone.
func ExampleSpellings() {
	var zone name.Spellings
	for _, text := range []string{"Modern", "straße", "modem", "pаypal"} { // the last one has a Cyrillic а
		label, err := name.ParseLabel(text)
		if err == nil {
			err = zone.Add(label)
		}
		var bad *name.LabelError
		switch {
		case errors.As(err, &bad):
			fmt.Printf("%s: %s\n", bad.Problem, bad.Reason())
		case err != nil:
			fmt.Printf("%s: %v\n", status.Of(err), err)
		default:
			fmt.Println(label)
		}
	}
	// Output:
	// modern
	// straße
	// conflict: "modem" looks like "modern", which is there already; choose another
	// mixed_scripts: it mixes the scripts Latin, Cyrillic
}
