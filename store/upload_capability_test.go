package store_test

import (
	"bytes"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/status"
	"allium/store"
	"allium/store/arriving/resumable"
	"allium/store/meta"
	"allium/store/storetest"
)

// TestUploadShares: one capability leaves places for others, also after a restart. An upload
// without a byte is dropped for a capability that has fewer uploads, and one with bytes never.
func TestUploadShares(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, cfg store.Config) {
		cfg.Uploads = 8
		reg := limits.NewRegistry(nil)
		s, stop := storetest.Start(t, cfg, store.Deps{Env: env.Env{Limits: reg}})
		begin := func(c resumable.Capability) (resumable.Info, error) {
			return s.Uploads().New(t.Context(), c, meta.UploadOptions{Length: 10})
		}
		state := func(id string) status.Outcome {
			_, err := s.Uploads().Get(t.Context(), id)
			return status.Of(err)
		}
		fill := func(c resumable.Capability, limit string) (ids []string) {
			t.Helper()
			for {
				u, err := begin(c)
				if err != nil {
					if r := status.ReportOf(err); r.Reason != "busy" || r.Limit != limit {
						t.Fatalf("refused with %+v, want busy by %s", r, limit)
					}
					return ids
				}
				if ids = append(ids, u.ID); len(ids) > 8 {
					t.Fatal("more uploads than places")
				}
			}
		}
		var own resumable.Capability
		a, b, c := resumable.Capability{ID: "a"}, resumable.Capability{ID: "b"}, resumable.Capability{ID: "c"}
		ofA := fill(a, "store.uploads_each")
		if len(ofA) != 4 {
			t.Fatalf("%d of 8 places for the first, want 4", len(ofA))
		}
		for _, id := range ofA[:3] {
			if _, err := s.Uploads().Append(t.Context(), a, id, 0, bytes.NewReader([]byte("x"))); err != nil {
				t.Fatal(err)
			}
		}
		// Two of the free places, and that of a's upload without a byte.
		ofB := fill(b, "store.uploads_each")
		if len(ofB) != 3 || state(ofA[3]) != status.Gone {
			t.Errorf("%d uploads of the second; that without a byte is %s", len(ofB), state(ofA[3]))
		}
		storetest.WantUploads(t, s, 6, 3)
		if cfg.Backend == store.BackendEmbedded {
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			reg = limits.NewRegistry(nil)
			s, stop = storetest.Start(t, cfg, store.Deps{Env: env.Env{Limits: reg}})
		}
		defer stop()
		if len(fill(a, "store.uploads_each")) != 0 || len(fill(b, "store.uploads_each")) != 0 {
			t.Error("a capability got more than its share")
		}
		for range 2 { // the last free places, and one without a byte of b
			if _, err := begin(own); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := begin(c); err != nil {
			t.Errorf("a third capability beside two with all places: %v", err)
		}
		if _, err := begin(own); err != nil {
			t.Errorf("the node's own user: %v", err)
		}
		if n := len(fill(b, "store.uploads")); n != 0 {
			t.Errorf("b took %d places back", n)
		}
		storetest.WantUploads(t, s, 8, 3)
		left := 0
		for i, id := range append(ofA[:3:3], ofB...) {
			switch o := state(id); {
			case o == status.OK && i >= 3:
				left++
			case o != status.OK && (i < 3 || o != status.Gone):
				t.Errorf("upload %d is %s", i, o)
			}
		}
		if left != 1 {
			t.Errorf("%d uploads of b are left, want 1", left)
		}
		for _, l := range reg.Snapshot() {
			if l.Name == "store.uploads_each" && (l.Current != 3 || l.Capacity != 4) {
				t.Errorf("%+v", l)
			}
		}
	})
}

// TestUploadEndsWithCapability: an upload ends with the capability that began it, or with a
// later one that sent a byte, and then its place is free.
func TestUploadEndsWithCapability(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := tiny()
		cfg.Uploads = 4
		disk := vfs.NewMem()
		s, stop := storetest.Start(t, cfg, store.Deps{FS: disk})
		defer func() { _ = stop() }()
		start := time.Now()
		short := resumable.Capability{ID: "short", Until: start.Add(5 * time.Minute)}
		long := resumable.Capability{ID: "long", Until: start.Add(time.Hour)}
		begin := func() string {
			t.Helper()
			u, err := s.Uploads().New(t.Context(), short, meta.UploadOptions{Length: 10})
			if err != nil || !u.Expires.Equal(meta.SecondOf(short.Until).Time()) {
				t.Fatalf("%+v, %v", u, err)
			}
			return u.ID
		}
		piece := func(c resumable.Capability, id string, at int64, want time.Time) {
			t.Helper()
			u, err := s.Uploads().Append(t.Context(), c, id, at, bytes.NewReader([]byte("x")))
			if err != nil || !u.Expires.Equal(meta.SecondOf(want).Time()) {
				t.Fatalf("%+v, %v; want it to expire at %s", u, err, want)
			}
		}
		sent, taken := begin(), begin()
		_, err := s.Uploads().New(t.Context(), short, meta.UploadOptions{Length: 10})
		storetest.Want(t, err, status.Busy)
		time.Sleep(4 * time.Minute)
		piece(short, sent, 0, short.Until)
		piece(long, taken, 0, long.Until)
		piece(short, taken, 1, long.Until) // the later end stays
		time.Sleep(90 * time.Second)
		_, err = s.Uploads().Get(t.Context(), sent)
		storetest.Want(t, err, status.Gone)
		storetest.WantUploads(t, s, 1, 2)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		s, stop = storetest.Start(t, cfg, store.Deps{FS: disk})
		if u, err := s.Uploads().Get(t.Context(), taken); err != nil ||
			!u.Expires.Equal(meta.SecondOf(long.Until).Time()) {
			t.Errorf("after a restart: %+v, %v", u, err)
		}
		time.Sleep(time.Hour)
		storetest.WantUploads(t, s, 0, 0)
	})
}

// TestUploadLabel: an upload that one capability began and another continues is pinned under
// the label that the latter demands, within the quota of that label.
func TestUploadLabel(t *testing.T) {
	t.Parallel()
	cfg := embedded(t.TempDir())
	cfg.Quotas = []string{"photos=100", "full=5", "*=1000"}
	reg := limits.NewRegistry(nil)
	s, stop := storetest.Start(t, cfg, store.Deps{Env: env.Env{Limits: reg}})
	p := []byte("ten bytes!")
	u := storetest.Begin(t, s, meta.UploadOptions{Length: 10, Pin: true})
	send := func(label string, at, to int) error {
		part := bytes.NewReader(p[at:to])
		_, err := s.Uploads().Append(t.Context(), resumable.Capability{Label: label}, u.ID, int64(at), part)
		return err
	}
	storetest.Want(t, send("full", 0, 5), status.Quota)
	if err := send("photos", 0, 5); err != nil {
		t.Fatal(err)
	}
	if q := quotas(reg); q[`"photos"`] != 10 || q[`"full"`] != 0 {
		t.Errorf("%v are reserved", q)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	reg = limits.NewRegistry(nil)
	s, _ = storetest.Start(t, cfg, store.Deps{Env: env.Env{Limits: reg}})
	storetest.Want(t, send("other", 5, 10), status.Forbidden)
	if err := send("", 5, 10); err != nil {
		t.Fatal(err)
	}
	p = []byte("ten others")
	u = storetest.Begin(t, s, meta.UploadOptions{Length: 10, Pin: true})
	if err := send("photos", 0, 10); err != nil {
		t.Fatal(err)
	}
	if q := quotas(reg); q[`"photos"`] != 20 {
		t.Errorf("%v are used", q)
	}
	var labels []string
	for pin, err := range s.Pins(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		labels = append(labels, pin.Label)
	}
	if !slices.Equal(labels, []string{"photos", "photos"}) {
		t.Errorf("pinned under %q", labels)
	}
}
