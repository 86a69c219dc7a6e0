package exchange

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"allium/internal/cores"
	"allium/protocols/status"
)

// freeCores is a client. It takes bytes only while no core of the pool is taken.
type freeCores struct {
	bytes.Buffer
	t    *testing.T
	pool *cores.Pool
}

func (f *freeCores) Write(p []byte) (int, error) {
	if n := f.pool.InUse(); n > 0 {
		f.t.Errorf("%d cores are taken while the client takes %d bytes", n, len(p))
	}
	return f.Buffer.Write(p)
}

// TestEncoderSharesCores: an encoder has a core while it compresses and none while the client takes the result, and
// its wait for one ends with the request.
func TestEncoderSharesCores(t *testing.T) {
	for _, coding := range []string{"zstd", "gzip"} {
		synctest.Test(t, func(t *testing.T) {
			pool := cores.New(1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			client := &freeCores{t: t, pool: pool}
			enc, err := NewEncoders(nil, pool).New(ctx, client, coding)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Repeat("a line of a listing\n", 20_000)
			if _, err := io.WriteString(enc, text); err != nil {
				t.Error(err)
			}
			if err := enc.Flush(); err != nil || client.Len() == 0 {
				t.Errorf("%d bytes after a flush, %v", client.Len(), err)
			}
			pool.Enter(cores.Foreground)
			if _, err := io.WriteString(enc, text); status.Of(err) != status.Timeout {
				t.Errorf("without a core: %v", err)
			}
			pool.Leave(cores.Foreground)
		})
		var made bytes.Buffer
		enc, err := NewEncoders(nil, nil).New(t.Context(), &made, coding)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(enc, "text"); err != nil {
			t.Error(err)
		}
		if err := enc.Close(); err != nil {
			t.Error(err)
		}
		var dec io.Reader
		if coding == "zstd" {
			dec, err = zstd.NewReader(&made, zstd.WithDecoderConcurrency(1))
		} else {
			dec, err = gzip.NewReader(&made)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(dec); err != nil || string(got) != "text" {
			t.Errorf("%q, %v", got, err)
		}
	}
}
