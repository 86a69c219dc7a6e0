package fileio

import (
	"bytes"
	"context"
	"io"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"allium/cmd/allium/cli"
	"allium/gateway/api"
	"allium/node/files"
	"allium/protocols/b3"
)

// slowStore is a node that adds one file of 1,000 MiB in 10 s.
type slowStore struct{ api.Store }

func (slowStore) Keep(_ context.Context, roots []b3.Root) ([]bool, error) {
	return make([]bool, len(roots)), nil
}

func (slowStore) Add(
	_ context.Context, tar io.Reader, _ api.AddOptions, report api.ProgressFunc,
) iter.Seq2[api.Added, error] {
	return func(yield func(api.Added, error) bool) {
		if _, err := io.Copy(io.Discard, tar); err != nil {
			yield(api.Added{}, err)
			return
		}
		for i := range int64(100) {
			if report != nil {
				report(api.Progress{Bytes: 10 * i << 20})
			}
			time.Sleep(100 * time.Millisecond)
		}
		yield(api.Added{Name: "big.bin", Files: 1, Hashed: 1, Bytes: 1000 << 20}, nil)
	}
}

func TestProgressOfAdd(t *testing.T) {
	t.Parallel()
	for _, columns := range []int{0, 40, 120} {
		synctest.Test(t, func(t *testing.T) {
			var out, errs bytes.Buffer
			a := &cli.App{Streams: cli.Streams{Stdout: &out, Stderr: &errs, ErrColumns: columns}}
			empty := files.Items(func(func(files.Item, error) bool) {})
			in := addition{items: empty, size: 1000 << 20, names: []string{"big.bin"}}
			err := add(t.Context(), a, slowStore{}, in, api.AddOptions{}, false)
			if err != nil {
				t.Fatal(err)
			}
			const closing = "allium: added 1 file, 1000 MiB in 10s (100 MiB/s)\n"
			shown, ok := strings.CutSuffix(errs.String(), closing)
			if !ok {
				t.Fatalf("standard error has %q", errs.String())
			}
			if want := (b3.Root{}).String() + " big.bin\n"; out.String() != want {
				t.Errorf("standard output has %q, want %q", out.String(), want)
			}
			want := map[int]string{
				40:  "addin…  500 MiB/1000 MiB  100 MiB/s  5s",
				120: "]  50 %  500 MiB of 1000 MiB  100 MiB/s  5s left",
			}[columns]
			if columns == 0 && shown != "" {
				t.Errorf("a pipe gets %q", shown)
			} else if columns > 0 {
				if !strings.Contains(shown, want) || !strings.HasSuffix(shown, "\r\x1b[K") {
					t.Errorf("no line with %q is in %q, or something stays", want, shown)
				}
			}
		})
	}
}
