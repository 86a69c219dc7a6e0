package damage

import (
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/store/disk/fsys"
	"allium/store/meta"
)

func TestDamageList(t *testing.T) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("s/tmp", 0o700); err != nil {
		t.Fatal(err)
	}
	list := func() *List {
		d := NewList(fs, "s", slog.New(slog.DiscardHandler), time.Now)
		if err := d.Load(); err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := list()
	d.Add(meta.Damage{Kind: meta.DamageLog, State: meta.DamageOpen, File: "seg/1", Offset: 32, Length: 10, Left: 10,
		Reason: "r"})
	d.Add(meta.Damage{Kind: meta.DamageLog, State: meta.DamageOpen, File: "seg/1", Offset: 32, Length: 10, Left: 10,
		Reason: "again"})
	d.Add(meta.Damage{Kind: meta.DamageBody, State: meta.DamageOpen, File: "seg/1", Offset: 99,
		Roots: []b3.Root{b3.Sum([]byte("x"))}, Reason: "r"})
	d.Add(meta.Damage{Kind: meta.DamageFormat, State: meta.DamageMended, File: "FORMAT", Reason: "r"})
	d = list()
	if got := d.All(); len(got) != 3 || got[1].Roots[0] != b3.Sum([]byte("x")) {
		t.Fatalf("the list is %+v", got)
	}
	if open, unknown := d.Open(); open != 2 || unknown != 1 {
		t.Fatalf("%d are open, %d unknown", open, unknown)
	}
	if n, err := d.Accept(); len(n) != 2 || err != nil {
		t.Fatalf("accepted %+v, %v", n, err)
	}
	if open, unknown := list().Open(); open != 0 || unknown != 0 {
		t.Fatalf("after a restart %d are open, %d unknown", open, unknown)
	}
}

// TestSegmentMissingAgain: a segment that came back and is missing once more is
// open damage.
func TestSegmentMissingAgain(t *testing.T) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("s/tmp", 0o700); err != nil {
		t.Fatal(err)
	}
	d := NewList(fs, "s", slog.New(slog.DiscardHandler), time.Now)
	for range 2 {
		d.Add(meta.Damage{Kind: meta.DamageLog, State: meta.DamageOpen, File: "seg/1",
			Length: 10, Reason: SegmentMissing})
		if open, _ := d.Open(); open != 1 || len(d.All()) != 1 {
			t.Fatalf("the list is %+v", d.All())
		}
		if _, err := d.Update(func(x *meta.Damage) bool { x.State = meta.DamageRepaired; return true }); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDamageListDamaged flips each byte of the list's file: no finding is lost unnoticed.
func TestDamageListDamaged(t *testing.T) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("s/tmp", 0o700); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	NewList(fs, "s", log,
		time.Now).Add(meta.Damage{Kind: meta.DamageLog, State: meta.DamageOpen, File: "seg/1", Left: 1,
		Reason: "r"})
	whole, err := fsys.ReadFile(fs, "s/DAMAGE")
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		p := append([]byte(nil), whole...)
		p[i] ^= 0x20
		if err := fsys.ReplaceFile(fs, "s", FileList, p); err != nil {
			t.Fatal(err)
		}
		d := NewList(fs, "s", log, time.Now)
		if err := d.Load(); err != nil {
			t.Fatal(err)
		}
		if _, unknown := d.Open(); unknown == 0 {
			t.Fatalf("with byte %d flipped nothing is open: %+v", i, d.All())
		}
	}
}

// TestDamageListDamagedAgain: a list that is damaged a second time, after the first
// damage was accepted, is open damage again.
func TestDamageListDamagedAgain(t *testing.T) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("s/tmp", 0o700); err != nil {
		t.Fatal(err)
	}
	d := NewList(fs, "s", slog.New(slog.DiscardHandler), time.Now)
	for range 2 {
		d.Add(meta.Damage{Kind: meta.DamageLog, State: meta.DamageOpen, File: "seg/1", Offset: time.Now().UnixNano(),
			Left: 1, Reason: "r"})
		whole, err := fsys.ReadFile(fs, "s/DAMAGE")
		if err != nil {
			t.Fatal(err)
		}
		whole[len(whole)-3] ^= 1 // in the last line
		if err := fsys.ReplaceFile(fs, "s", FileList, whole); err != nil {
			t.Fatal(err)
		}
		d = NewList(fs, "s", slog.New(slog.DiscardHandler), time.Now)
		if err := d.Load(); err != nil {
			t.Fatal(err)
		}
		if _, unknown := d.Open(); unknown != 1 {
			t.Fatalf("%d are open of %+v", unknown, d.All())
		}
		if _, err := d.Accept(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDamageListFull(t *testing.T) {
	d := NewList(vfs.NewMem(), "", slog.New(slog.DiscardHandler), time.Now)
	for i := range maxDamage + 10 {
		d.insert(meta.Damage{Kind: meta.DamageLog, State: meta.DamageOpen, Offset: int64(i), Left: 1})
	}
	if open, _ := d.Open(); open != maxDamage || d.All()[maxDamage-1].Left != 11 {
		t.Fatalf("%d are open, the last is %+v", open, d.All()[maxDamage-1])
	}
	if _, err := d.Update(func(x *meta.Damage) bool {
		if x.Offset != 0 {
			return false
		}
		x.State = meta.DamageMended
		return true
	}); err == nil {
		t.Fatal("a list without a directory was written")
	}
	d.insert(meta.Damage{Kind: meta.DamageLog, State: meta.DamageOpen, Offset: 1 << 40, Left: 1})
	if got := d.All(); len(got) != maxDamage || got[maxDamage-1].Offset != 1<<40 {
		t.Fatalf("%d entries, the last is %+v", len(got), got[len(got)-1])
	}
}
