package exchange

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"allium/internal/cores"
	"allium/internal/limits"
)

// maxEncoders bounds the answers that are compressed at once, about 1 MiB of memory each.
const maxEncoders = 16

// encoderWindow is the zstd window of an answer, in bytes.
const encoderWindow = 128 << 10

// Encoders compresses answers that are made while they are sent, such as listings. Its methods may be called from any
// goroutine.
type Encoders struct {
	gate *limits.Gate
	pool *cores.Pool // nil: no bound
}

// NewEncoders returns Encoders that take their cores from pool.
func NewEncoders(r *limits.Registry, pool *cores.Pool) *Encoders {
	return &Encoders{pool: pool, gate: r.NewGate(limits.Spec{
		Name: "gateway.encoders", Path: "listings → compression", Policy: "the listing is sent uncompressed",
	}, maxEncoders, 0)}
}

// Acquire returns the content coding of an answer, or "" for none. It chooses none if all encoders are in use. The
// caller calls done after the answer.
func (e *Encoders) Acquire(r *http.Request) (coding string, done func()) {
	if !r.ProtoAtLeast(1, 1) {
		return "", func() {}
	}
	if coding = preferredCoding(r); coding == "" || e.gate.Enter() != nil {
		return "", func() {}
	}
	return coding, e.gate.Leave
}

// preferredCoding returns the content coding that the client prefers: gzip, zstd, or "" for
// none (RFC 9110 §12.5.3). Between equals it prefers zstd.
func preferredCoding(r *http.Request) string {
	best, most := "", 0.0
	for name, q := range Accepted(r.Header.Values("Accept-Encoding")) {
		if name != "gzip" && name != "zstd" {
			continue
		}
		if q > most || q == most && name == "zstd" {
			best, most = name, q
		}
	}
	if most == 0 {
		return ""
	}
	return best
}

// Encoder compresses. Flush makes what was written so far readable; Close ends the encoding.
type Encoder interface {
	io.WriteCloser
	Flush() error
}

// New returns an encoder that writes to to and does not close it. It takes a core for each of its calls, within ctx,
// and gives it back before it writes to to, which may wait for the client.
func (e *Encoders) New(ctx context.Context, to io.Writer, coding string) (Encoder, error) {
	s := &sharingEncoder{ctx: ctx, pool: e.pool, to: to}
	if coding != "zstd" {
		s.Encoder = gzip.NewWriter(&s.made)
		return s, nil
	}
	var err error
	s.Encoder, err = zstd.NewWriter(&s.made, zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(encoderWindow), zstd.WithLowerEncoderMem(true))
	return s, err
}

// sharingEncoder is an encoder that shares the cores.
type sharingEncoder struct {
	Encoder
	ctx  context.Context
	pool *cores.Pool // nil: no bound
	made bytes.Buffer
	to   io.Writer
}

func (e *sharingEncoder) Write(p []byte) (int, error) {
	err := e.run(func() error { _, err := e.Encoder.Write(p); return err })
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (e *sharingEncoder) Flush() error { return e.run(e.Encoder.Flush) }
func (e *sharingEncoder) Close() error { return e.run(e.Encoder.Close) }

func (e *sharingEncoder) run(call func() error) error {
	if err := e.pool.Acquire(e.ctx, cores.Foreground); err != nil {
		return err
	}
	err := call()
	e.pool.Leave(cores.Foreground)
	if err == nil {
		_, err = e.made.WriteTo(e.to)
	}
	return err
}
