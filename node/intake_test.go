package node_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/api"
	"allium/gateway/policy/capabilities"
	"allium/internal/testkit"
	"allium/node/config"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/object"
	"allium/protocols/status"
	"allium/store"
)

// puts is what a test puts from one node to another.
type puts struct {
	from, to *running
	id       peer.ID
}

// joined starts two nodes that are connected and members of one cluster.
func joined(t testing.TB, change func(*config.Config)) puts {
	t.Helper()
	ring := newRing(t)
	to := startAt(t, ring.home(t), change)
	from := startAt(t, ring.home(t), joining(to))
	id, err := peer.Decode(to.ID().ID)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the nodes know each other", func() bool {
		peers, err := from.api.Peers(t.Context())
		return err == nil && slices.ContainsFunc(peers, func(p api.Peer) bool { return p.ID == to.ID().ID }) &&
			metric(t, to, `durability_members{state="present"}`) == 2
	})
	return puts{from, to, id}
}

// mint makes a capability with the ring of the receiver, in its binary form.
func (p puts) mint(t *testing.T, caveats ...string) []byte {
	t.Helper()
	caveats = append(caveats, "exp < "+time.Now().Add(5*time.Minute).UTC().Format(time.RFC3339))
	var all []capability.Caveat
	for _, s := range caveats {
		c, err := capability.ParseCaveat(s)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	text, err := capabilities.Open(p.to.home).Mint(t.Context(), all...)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// put puts an object of the sender's store.
func (p puts) put(t *testing.T, root b3.Root, token []byte) (isNew bool, err error) {
	t.Helper()
	obj, err := p.from.Store().Open(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	defer obj.Close()
	return p.from.ObjectClient().Put(t.Context(), p.id, obj, object.PutOptions{Capability: token})
}

// pins returns the labels of an object's pins at the receiver.
func (p puts) pins(t *testing.T, root b3.Root) (labels []string) {
	t.Helper()
	for pin, err := range p.to.Store().Pins(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if pin.Root == root {
			labels = append(labels, pin.Label)
		}
	}
	return labels
}

// TestPutToANode puts objects from one node to another: for the cluster, with the
// capabilities of people, and without any.
func TestPutToANode(t *testing.T) {
	noLeaks(t)
	p := joined(t, func(c *config.Config) { c.Audit.Enabled = true })
	self := "aud = " + p.to.ID().ID
	replicate := p.mint(t, "op in replicate", self)
	large, data := addBytes(t, p.from, 1, 3_000_000)
	for _, want := range []bool{true, false} {
		if isNew, err := p.put(t, large, replicate); err != nil || isNew != want {
			t.Fatalf("new %t, %v", isNew, err)
		}
	}
	obj, err := p.to.Store().Open(t.Context(), large)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(io.NewSectionReader(obj.Reader(), 0, obj.Size()))
	_ = obj.Close()
	if err != nil || !bytes.Equal(got, data) || !slices.Equal(p.pins(t, large), []string{"cluster"}) {
		t.Errorf("%d bytes, %v, pinned as %q", len(got), err, p.pins(t, large))
	}
	// People neither set nor remove the pin.
	if err := p.to.api.Unpin(t.Context(), large.String(), ""); status.Of(err) != status.NotFound {
		t.Error(err)
	}
	if err := p.to.api.Unpin(t.Context(), large.String(), "cluster"); status.Of(err) != status.BadRequest {
		t.Error(err)
	}
	_, err = p.to.api.Pin(t.Context(), large.String(), api.PinOptions{Label: "cluster"})
	if status.Of(err) != status.BadRequest {
		t.Error(err)
	}
	if len(p.pins(t, large)) != 1 {
		t.Error("the pin is gone")
	}

	// The same capability in the hands of a node that has not the ring is worth nothing.
	stranger := puts{start(t, joining(p.to)), p.to, p.id}
	theirs, _ := addBytes(t, stranger.from, 4, 1000)
	if _, err := stranger.put(t, theirs, replicate); status.Of(err) != status.Forbidden {
		t.Errorf("a stranger puts with a capability of the cluster: %v", err)
	}
	if has, err := p.to.Store().Has(t.Context(), []b3.Root{theirs}); err != nil || has[0] != b3.Absent {
		t.Error("what a stranger put is stored", has, err)
	}
	if _, err := stranger.put(t, theirs, p.mint(t, "op in put")); err != nil {
		t.Error("a stranger with a person's capability:", err)
	}

	small, _ := addBytes(t, p.from, 2, 1000)
	for name, c := range map[string]struct {
		token []byte
		want  status.Outcome
	}{
		"none":            {nil, status.Unauthenticated},
		"garbage":         {[]byte("letmein"), status.Unauthenticated},
		"another op":      {p.mint(t, "op in get,pin"), status.Forbidden},
		"another object":  {p.mint(t, "op in put", "obj ^= "+large.String()), status.Forbidden},
		"another node":    {p.mint(t, "op in replicate", "aud = "+p.from.ID().ID), status.Forbidden},
		"too few bytes":   {p.mint(t, "op in put", "bytes <= 999"), status.Forbidden},
		"no node":         {p.mint(t, "op in replicate"), status.Forbidden},
		"everything else": {p.mint(t, "op in get,put,pin,replicate", self), status.Forbidden},
	} {
		if _, err := p.put(t, small, c.token); status.Of(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if has, err := p.to.Store().Has(t.Context(), []b3.Root{small}); err != nil || has[0] != b3.Absent {
		t.Error("something is stored", has, err)
	}
	if _, err := p.put(t, small, p.mint(t, "op in put", self)); err != nil || len(p.pins(t, small)) != 0 {
		t.Error(err, p.pins(t, small))
	}
	if _, err := p.put(t, small, p.mint(t, "op in put,pin", "label = photos")); err != nil ||
		!slices.Equal(p.pins(t, small), []string{"photos"}) {
		t.Error(err, p.pins(t, small))
	}
	if err := p.to.stop(); err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(p.to.home, "audit", "*"))
	if err != nil {
		t.Fatal(err)
	}
	var log []byte
	for _, name := range logs {
		if part, err := os.ReadFile(name); err == nil { // the ballast is a directory
			log = append(log, part...)
		}
	}
	for _, want := range []string{
		`"op":"replicate"`, `"object":"` + large.String() + `"`, `"label":"cluster"`,
		`"outcome":"ok"`, `"kind":"refusal"`,
	} {
		if !strings.Contains(string(log), want) {
			t.Errorf("the audit log lacks %s", want)
		}
	}
}

// TestPutForRepairToANode: what a member sends for a repair counts at the receiver's rate of repairs, and nothing else
// does.
func TestPutForRepairToANode(t *testing.T) {
	noLeaks(t)
	p := joined(t, func(c *config.Config) { c.Store.RepairRate = 1 << 30 })
	member, person := p.mint(t, "op in replicate", "aud = "+p.to.ID().ID), p.mint(t, "op in put")
	for i, c := range []struct {
		token  []byte
		repair bool
		counts bool
	}{{member, true, true}, {member, false, false}, {person, true, false}} {
		const received = `repair_bytes_total{kind="receive"}`
		before, sent := metric(t, p.to, received), int64(0)
		root, _ := addBytes(t, p.from, byte(i), 3_000_000)
		obj, err := p.from.Store().Open(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.from.ObjectClient().Put(t.Context(), p.id, obj, object.PutOptions{
			Capability: c.token, Repair: c.repair,
			Wait: func(_ context.Context, n int) error { sent += int64(n); return nil },
		})
		_ = obj.Close()
		if err != nil {
			t.Fatal(err)
		}
		want := map[bool]int64{true: sent}[c.counts]
		if n := metric(t, p.to, received) - before; n != want || sent < 3_000_000 {
			t.Errorf("put %d: %d of %d bytes are counted, want %d", i, n, sent, want)
		}
	}
	if n := metric(t, p.to, `repair_wait_seconds_count{kind="receive"}`); n == 0 {
		t.Error("no wait is counted")
	}
}

// TestPutManyToANode puts small objects together, some of which are there, within a quota.
func TestPutManyToANode(t *testing.T) {
	noLeaks(t)
	p := joined(t, func(c *config.Config) { c.Store.Quotas = []string{"cluster=100KiB"} })
	token := p.mint(t, "op in replicate", "aud = "+p.to.ID().ID)
	var objs object.SmallObjects
	for i := range 100 {
		data := bytes.Repeat([]byte{byte(i), 1}, 1000)
		for _, n := range []*running{p.from, p.to}[:1+i%2] {
			if _, err := n.Store().PutBytes(t.Context(), data, store.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		objs.Objs, objs.Sizes = append(objs.Objs, b3.Sum(data)), append(objs.Sizes, int64(len(data)))
	}
	objs.Open = func(ctx context.Context, i int) (b3.Object, error) { return p.from.Store().Open(ctx, objs.Objs[i]) }
	errs, err := p.from.ObjectClient().PutMany(t.Context(), p.id, objs, object.PutOptions{Capability: token})
	if err != nil {
		t.Fatal(err)
	}
	held := 0
	for i, root := range objs.Objs {
		pinned := slices.Equal(p.pins(t, root), []string{"cluster"})
		if pinned != (errs[i] == nil) {
			t.Errorf("object %d: %v, pinned %t", i, errs[i], pinned)
		}
		if o := status.Of(errs[i]); errs[i] != nil && o != status.Quota && o != status.NotAllowed {
			t.Errorf("object %d: %v", i, errs[i])
		}
		if pinned {
			held++
		}
	}
	if want := 100 << 10 / 2000; held != want {
		t.Errorf("%d objects are held, the quota is for %d", held, want)
	}
	big, _ := addBytes(t, p.from, 3, 200_000)
	if _, err := p.put(t, big, token); status.Of(err) != status.Quota {
		t.Error("over the quota:", err)
	}
}

// TestPutResumesAtANode cuts a put and goes on: what was there does not travel twice.
func TestPutResumesAtANode(t *testing.T) {
	noLeaks(t)
	p := joined(t, nil)
	token := p.mint(t, "op in replicate", "aud = "+p.to.ID().ID)
	root, _ := addBytes(t, p.from, 1, 20_000_000)
	obj, err := p.from.Store().Open(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	defer obj.Close()
	sent, cut := 0, io.ErrClosedPipe
	o := object.PutOptions{Capability: token, Wait: func(_ context.Context, n int) error {
		if sent += n; sent > 10_000_000 && cut != nil {
			return cut
		}
		return nil
	}}
	if _, err := p.from.ObjectClient().Put(t.Context(), p.id, obj, o); !errors.Is(err, cut) {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the receiver keeps a part", func() bool {
		part, err := p.to.Store().Partials().Get(t.Context(), root)
		return err == nil && part.Size == 20_000_000 && !p.to.Store().Partials().Running(root)
	})
	sent, cut = 0, nil
	if isNew, err := p.from.ObjectClient().Put(t.Context(), p.id, obj, o); err != nil || !isNew {
		t.Fatal(isNew, err)
	}
	if sent > 15_000_000 || sent < 1_000_000 {
		t.Errorf("%d bytes travelled the second time", sent)
	}
	if labels := p.pins(t, root); len(labels) != 1 {
		t.Error(labels)
	}
}
