package node_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"testing"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/object"
	"allium/protocols/status"
)

// heldPut is a put that has sent a part of an object and sends no more until it is told to.
type heldPut struct {
	goOn chan struct{} // closed by the test
	done chan error
}

// holdPut begins to put an object, and returns when a part of it has arrived.
func (p puts) holdPut(ctx context.Context, t *testing.T, root b3.Root, token []byte) heldPut {
	t.Helper()
	obj, err := p.from.Store().Open(ctx, root)
	if err != nil {
		t.Fatal(err)
	}
	h := heldPut{make(chan struct{}), make(chan error, 1)}
	held, sent := make(chan struct{}), int64(0)
	opt := object.PutOptions{Capability: token, Wait: func(ctx context.Context, n int) error {
		before := sent
		if sent += int64(n); sent < obj.Size()/2 {
			return nil
		}
		if before < obj.Size()/2 {
			close(held)
		}
		select {
		case <-h.goOn:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	go func() {
		defer obj.Close()
		_, err := p.from.ObjectClient().Put(ctx, p.id, obj, opt)
		h.done <- err
	}()
	select {
	case <-held:
	case err := <-h.done:
		t.Fatal("the put ended early:", err)
	}
	testkit.Eventually(t, "a part of the object", func() bool {
		part, err := p.to.Store().Partials().Get(ctx, root)
		return err == nil && part.Stored > 0
	})
	return h
}

// TestReadWhilePut reads objects at a node to which a member puts them just now, and has sent a half. The member sends
// no more until the reads have ended: nobody waits for it, whether it goes on then or not.
func TestReadWhilePut(t *testing.T) {
	noLeaks(t)
	p := joined(t, nil)
	token := p.mint(t, "op in replicate", "aud = "+p.to.ID().ID)
	reads := map[string]func(t *testing.T, root b3.Root, want []byte){
		"gateway": func(t *testing.T, root b3.Root, want []byte) {
			resp, err := http.Get(p.to.ID().Gateway + "/b3/" + root.String())
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != http.StatusOK || !bytes.Equal(got, want) {
				t.Errorf("status %s, %d of %d bytes, %v", resp.Status, len(got), len(want), err)
			}
		},
		"range": func(t *testing.T, root b3.Root, want []byte) {
			s, err := p.to.api.Cat(t.Context(), root.String(), b3.Range{Start: 2_500_000, End: 2_600_000})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Body.Close()
			if got, err := io.ReadAll(s.Body); err != nil || !bytes.Equal(got, want[2_500_000:2_600_000]) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		},
		"get": func(t *testing.T, root b3.Root, want []byte) {
			s, err := p.to.api.Get(t.Context(), root.String())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Body.Close()
			if got, err := io.ReadAll(s.Body); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d of %d bytes, %v", len(got), len(want), err)
			}
		},
	}
	seed := byte(0)
	for how, read := range reads {
		for _, goesOn := range []bool{true, false} {
			seed++
			root, data := addBytes(t, p.from, seed, 3_000_000)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			put := p.holdPut(ctx, t, root, token)
			// A second put of the object is told to come later.
			if _, err := p.put(t, root, token); status.Of(err) != status.Busy {
				t.Errorf("%s: a second put: %v", how, err)
			}
			read(t, root, data)
			select {
			case err := <-put.done:
				t.Errorf("%s: the put has ended: %v", how, err)
			default:
			}
			if goesOn {
				close(put.goOn)
			} else {
				cancel()
			}
			if err := <-put.done; (err == nil) != goesOn {
				t.Errorf("%s: goes on %t: the put ends with %v", how, goesOn, err)
			}
			testkit.Eventually(t, "no ingest", func() bool { return p.to.Store().Stats().Ingests == 0 })
			if !goesOn && how == "range" { // what arrived is kept for the next put
				if _, err := p.put(t, root, token); err != nil {
					t.Error(err)
				}
			}
			if err := p.to.Store().Verify(t.Context(), root); err != nil {
				t.Errorf("%s: goes on %t: %v", how, goesOn, err)
			}
			testkit.Eventually(t, "no partial object of "+how, func() bool {
				st := p.to.Store().Stats()
				return st.PartialObjects == 0 && st.PartialBytes == 0
			})
			if labels := p.pins(t, root); goesOn && len(labels) != 1 {
				t.Errorf("%s: it is pinned as %q", how, labels)
			}
		}
	}
}

// TestAddWhilePut adds a file at a node to which a member puts the same bytes just now.
func TestAddWhilePut(t *testing.T) {
	noLeaks(t)
	p := joined(t, nil)
	token := p.mint(t, "op in replicate", "aud = "+p.to.ID().ID)
	root, data := addBytes(t, p.from, 1, 3_000_000)
	put := p.holdPut(t.Context(), t, root, token)
	name := filepath.Join(t.TempDir(), "file")
	write(t, name, data)
	if got := add(t, p.to, name)[0].Root; got != root {
		t.Fatal("added", got)
	}
	close(put.goOn)
	if err := <-put.done; err != nil {
		t.Error(err)
	}
	if err := p.to.Store().Verify(t.Context(), root); err != nil {
		t.Error(err)
	}
	if st := p.to.Store().Stats(); st.PartialObjects != 0 || st.Ingests != 0 {
		t.Errorf("%d partial objects, %d ingests", st.PartialObjects, st.Ingests)
	}
}
