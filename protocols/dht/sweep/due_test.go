package sweep

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/multiformats/go-multihash"
	"pgregory.net/rapid"

	"allium/protocols/b3"
	"allium/protocols/kad"
)

func TestCells(t *testing.T) {
	for i := range 1000 {
		root := object(i)
		key := kad.Hash(root.Multihash())
		bits := ""
		for n := range cellBits {
			bits += string('0' + key[n/8]>>(7-n%8)&1)
		}
		if got := cellOf(root).prefix(); got != bits {
			t.Fatalf("%s is in cell %s, its key begins with %s", root, got, bits)
		}
	}
	type bitString string
	var asked bitString
	_, _ = inCell(
		t.Context(),
		func(_ context.Context, k bitString) ([]multihash.Multihash, error) { asked = k; return nil, nil },
		5,
	)
	if want := strings.Repeat("0", cellBits-3) + "101"; string(asked) != want {
		t.Errorf("asked for %s", asked)
	}
}

// TestDueTable drives the table and a plain model side by side.
func TestDueTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table dueTable
		model := map[cellID]int64{}
		now := time.Unix(1_800_000_000, 0)
		roots := make([]b3.Root, 20)
		for i := range roots {
			roots[i] = object(i)
		}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "pass")) * time.Second)
			root := rapid.SampledFrom(roots).Draw(t, "root")
			c := cellOf(root)
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0: // a listing
				table.begin()
				listed := map[cellID]bool{}
				for _, r := range rapid.SliceOf(rapid.SampledFrom(roots)).Draw(t, "listed") {
					table.seen(r, now)
					listed[cellOf(r)] = true
					if model[cellOf(r)] == 0 {
						model[cellOf(r)] = now.Unix()
					}
				}
				table.end()
				for c := range model {
					if !listed[c] {
						delete(model, c)
					}
				}
			case 1:
				table.seen(root, now.Add(time.Hour))
				if model[c] == 0 {
					model[c] = now.Add(time.Hour).Unix()
				}
			case 2:
				table.done(root, now.Add(time.Hour))
				if model[c] != 0 {
					model[c] = now.Add(time.Hour).Unix()
				}
			case 3:
				table.clear(c)
				delete(model, c)
			case 4: // a restart
				if p := table.snapshot(); p != nil {
					var next dueTable
					if !next.restore(p, now.Add(time.Hour)) {
						t.Fatal("a snapshot is not read")
					}
					for c := range table.cells {
						if next.cells[c].at != table.cells[c].at {
							t.Fatalf("cell %d is due at %d, was at %d", c, next.cells[c].at, table.cells[c].at)
						}
					}
					if table.snapshot() != nil {
						t.Fatal("a table that did not change is stored again")
					}
				}
			}
			lag, late := time.Duration(0), 0
			for _, at := range model {
				lag = max(lag, now.Sub(time.Unix(at, 0)))
				if at < now.Unix() {
					late++
				}
			}
			if got := table.lag(now); got != lag {
				t.Fatalf("the lag is %s, want %s", got, lag)
			}
			cells := table.late(now)
			if len(cells) != late {
				t.Fatalf("%d cells are late, want %d", len(cells), late)
			}
			for i := 1; i < len(cells); i++ {
				if model[cells[i-1]] > model[cells[i]] {
					t.Fatal("not the oldest first")
				}
			}
		}
	})
}

// TestClockWasWrong: a due time of the far future does not hide what is due.
func TestClockWasWrong(t *testing.T) {
	var table, next dueTable
	now := time.Unix(1_800_000_000, 0)
	table.seen(object(1), now.Add(1000*time.Hour))
	if !next.restore(table.snapshot(), now.Add(13*time.Hour)) {
		t.Fatal("not read")
	}
	if got := next.lag(now.Add(14 * time.Hour)); got != time.Hour {
		t.Errorf("the lag is %s", got)
	}
}

func FuzzRestore(f *testing.F) {
	var table dueTable
	table.seen(object(1), time.Unix(1_800_000_000, 0))
	f.Add(table.snapshot())
	f.Add([]byte{})
	f.Add([]byte{dueVersion})
	f.Add(bytes.Repeat([]byte{0xff}, dueSize))
	f.Fuzz(func(t *testing.T, p []byte) {
		var got dueTable
		most := time.Unix(1<<32, 0)
		if !got.restore(p, most) {
			return
		}
		got.again()
		if !bytes.Equal(got.snapshot(), p) {
			t.Fatal("not what was read")
		}
	})
}
