package local

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/gateway/upload"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
	"allium/store"
	"allium/store/storetest"
)

// uploading returns the adapter over a store, and what it announced.
func uploading(st *store.Store) (Uploads, *announcements) {
	a := &announcements{}
	return Uploads{api: &stored{st: st, node: a}, shut: func() error { return nil }}, a
}

// announcements notes what was pinned.
type announcements struct {
	noNode
	roots []b3.Root
}

func (a *announcements) pinned(_ context.Context, root b3.Root, _ string, _ bool) {
	a.roots = append(a.roots, root)
}

// TestUploads: what is stored is pinned and announced as it was asked for, on
// disk and in RAM.
func TestUploads(t *testing.T) {
	for _, backend := range []string{store.BackendEmbedded, store.BackendMemory} {
		t.Run(backend, func(t *testing.T) {
			cfg := store.DefaultConfig()
			cfg.Backend, cfg.Dir, cfg.Quotas = backend, t.TempDir(), []string{"small=64KiB"}
			st, _ := storetest.Start(t, cfg, store.Deps{})
			u, announced := uploading(st)
			ctx := t.Context()
			p := bytes.Repeat([]byte("allium"), 50_000)
			root := b3.Sum(p)
			want := api.Stored{Root: root, Size: int64(len(p)), New: true}
			if _, here, err := u.Present(ctx, root, upload.Options{Pin: true}); here || err != nil {
				t.Errorf("%v, %v", here, err)
			}
			if s, err := u.Put(ctx, bytes.NewReader(p), upload.Options{Length: -1, Expect: root}); err != nil ||
				s != want {
				t.Errorf("%+v, %v", s, err)
			}
			if len(announced.roots) != 0 {
				t.Errorf("announced %v", announced.roots)
			}
			want.New, want.Pinned = false, true
			if s, here, err := u.Present(ctx, root, upload.Options{Pin: true, Label: "l"}); !here || err != nil ||
				s != want {
				t.Errorf("%+v, %v, %v", s, here, err)
			}
			if len(announced.roots) != 1 || announced.roots[0] != root {
				t.Errorf("announced %v", announced.roots)
			}
			if pins, err := u.api.pinsOf(ctx, root); err != nil || len(pins) != 1 ||
				pins[0].Label != "l" || pins[0].Recursive {
				t.Errorf("%+v, %v", pins, err)
			}

			// Refused before a byte is asked for.
			for name, c := range map[string]struct {
				o    upload.Options
				want status.Outcome
			}{
				"quota":    {upload.Options{Length: 65 << 10, Pin: true, Label: "small"}, status.Quota},
				"no space": {upload.Options{Length: 1 << 60}, status.NoSpace},
				"label":    {upload.Options{Length: 5, Pin: true, Label: "a\nb"}, status.BadRequest},
			} {
				if _, err := u.Put(ctx, unread{t}, c.o); status.Of(err) != c.want {
					t.Errorf("%s: %v", name, err)
				}
				if _, err := u.New(ctx, capability.Grant{}, c.o); status.Of(err) != c.want {
					t.Errorf("%s in pieces: %v", name, err)
				}
			}
			// Without a length the stream is cut, and what was charged given back.
			pinned := upload.Options{Length: -1, Pin: true, Label: "small"}
			if _, err := u.Put(ctx, bytes.NewReader(p), pinned); err != nil && status.Of(err) != status.Quota {
				t.Errorf("%v", err)
			}
			other := append(bytes.Clone(p), 'x')
			if _, err := u.Put(ctx, bytes.NewReader(other), pinned); status.Of(err) != status.Quota {
				t.Errorf("%v", err)
			}
			expects := upload.Options{Length: -1, Expect: root}
			if _, err := u.Put(ctx, bytes.NewReader(other), expects); status.Of(err) != status.BadDigest {
				t.Errorf("%v", err)
			}
			if _, err := st.Stat(ctx, b3.Sum(other)); status.Of(err) != status.NotFound {
				t.Errorf("what was refused is there: %v", err)
			}
		})
	}
}

// unread is a body that nobody may ask for.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

func TestUploadsInPieces(t *testing.T) {
	cfg := store.DefaultConfig()
	cfg.Dir = t.TempDir()
	st, _ := storetest.Start(t, cfg, store.Deps{})
	u, announced := uploading(st)
	ctx := t.Context()
	p := bytes.Repeat([]byte("allium"), 50_000)
	root := b3.Sum(p)
	up, err := u.New(ctx, capability.Grant{},
		upload.Options{Length: int64(len(p)), Expect: root, Pin: true, Label: "l"})
	if err != nil || len(up.ID) != 32 || up.Offset != 0 || up.Stored != nil || !up.Expires.After(time.Now()) {
		t.Fatalf("%+v, %v", up, err)
	}
	cut := status.Errorf(status.Timeout, "cut")
	up, err = u.Append(ctx, capability.Grant{}, up.ID, 0, io.MultiReader(bytes.NewReader(p[:100_001]), failing{cut}))
	if status.Of(err) != status.Timeout || up.Offset != 100_001 {
		t.Fatalf("%+v, %v", up, err)
	}
	up, err = u.Append(ctx, capability.Grant{}, up.ID, 5, unread{t})
	if status.Of(err) != status.Conflict || up.Offset != 100_001 {
		t.Errorf("%+v, %v", up, err)
	}
	if up, err = u.Upload(ctx, up.ID); err != nil || up.Offset != 100_001 || up.Label != "l" || !up.Pin {
		t.Errorf("%+v, %v", up, err)
	}
	up, err = u.Append(ctx, capability.Grant{}, up.ID, up.Offset, bytes.NewReader(p[up.Offset:]))
	want := api.Stored{Root: root, Size: int64(len(p)), New: true, Pinned: true}
	if err != nil || up.Stored == nil || *up.Stored != want {
		t.Fatalf("%+v, %v", up, err)
	}
	if len(announced.roots) != 1 || announced.roots[0] != root {
		t.Errorf("announced %v", announced.roots)
	}
	if pins, err := u.api.pinsOf(ctx, root); err != nil || len(pins) != 1 || pins[0].Label != "l" {
		t.Errorf("%+v, %v", pins, err)
	}
	gone, err := u.New(ctx, capability.Grant{}, upload.Options{Length: 5})
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Remove(ctx, gone.ID); err != nil {
		t.Error(err)
	}
	if _, err := u.Upload(ctx, gone.ID); status.Of(err) != status.Gone {
		t.Errorf("%v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestUploadsRefused: a seed holds nothing, and a node under pressure takes
// nothing.
func TestUploadsRefused(t *testing.T) {
	cfg := store.DefaultConfig()
	cfg.Dir = t.TempDir()
	st, _ := storetest.Start(t, cfg, store.Deps{})
	seed, _ := uploading(st)
	seed.api.cfg.Seed = true
	full, _ := uploading(st)
	full.shut = func() error { return status.BusyError(status.Busy, status.Limit{Name: "pressure_writes"}) }
	for want, u := range map[status.Outcome]Uploads{status.NotAllowed: seed, status.Busy: full} {
		o := upload.Options{Length: 5}
		if _, err := u.Put(t.Context(), unread{t}, o); status.Of(err) != want {
			t.Errorf("%v", err)
		}
		if _, err := u.New(t.Context(), capability.Grant{}, o); status.Of(err) != want {
			t.Errorf("%v", err)
		}
		_, err := u.Append(t.Context(), capability.Grant{}, strings.Repeat("0", 32), 0, unread{t})
		if status.Of(err) != want {
			t.Errorf("%v", err)
		}
	}
}
