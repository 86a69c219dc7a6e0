package films

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime/trace"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/status"
)

// MaxFilms is the most films that are kept.
const MaxFilms = 4

// The bounds of films.
const (
	window      = 5 * time.Second
	windowBytes = 6 << 20 // the tracer adds what has happened since its latest flush
	maxBytes    = 8 << 20 // of a film before it is compressed
	between     = time.Minute
	rest        = 10 * time.Second // the tracer stops after so long, or twice that, without a lookup
)

// result says what became of the request for a film.
type result string

// The results.
const (
	kept     result = "kept"
	tooSoon  result = "too_soon" // less than a minute after the one before
	tooLarge result = "too_large"
	failed   result = "failed" // the tracer of this process is not ours, or it failed
)

// Recorder runs Go's flight recorder and keeps films. Its methods are safe for concurrent use.
type Recorder struct {
	log    *slog.Logger
	counts *prometheus.CounterVec
	usage  *limits.Usage
	slow   chan status.LookupID // at most one, because films are a minute apart
	wake   chan struct{}        // a lookup has begun, the first after a rest
	busy   atomic.Bool          // there was a lookup since the latest look
	latest atomic.Int64         // when the latest film was asked for, nanoseconds since started; 0: none was
	began  time.Time

	mu    sync.Mutex // lock: leaf
	films []film     // the oldest first
	bytes int64
}

// film is the window of the tracer at the end of a lookup.
type film struct {
	id   status.LookupID
	data []byte // compressed with zstd
}

// New returns a recorder that records once it runs.
func New(e env.Env) *Recorder {
	e.SetDefaults()
	r := &Recorder{log: e.Log, slow: make(chan status.LookupID, 1), wake: make(chan struct{}, 1), began: time.Now()}
	r.counts = env.Values(env.CounterVec("films_total",
		"Lookups beyond 4 times the p99 of their class, by what became of their film: kept, too_soon (one a minute), "+
			"too_large, failed.", "result"), kept, tooSoon, tooLarge, failed)
	env.MustRegister(e.Metrics, r.counts)
	r.usage = e.Limits.NewUsage(limits.Spec{
		Name: "node.films", Path: "execution traces of slow lookups → why", Policy: "the oldest of 4 is dropped",
	}, MaxFilms*maxBytes, r.size)
	return r
}

func (r *Recorder) size() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes
}

// Arm says that there is a lookup, for which the tracer runs. It never waits.
func (r *Recorder) Arm() {
	if r.busy.Load() || !r.busy.CompareAndSwap(false, true) {
		return
	}
	select {
	case r.wake <- struct{}{}:
	default: // it is about to be seen
	}
}

// Run records while there are lookups, until ctx ends. An idle node has no tracer, which would double
// its wake-ups. Go has one flight recorder in a process: beside another one it records nothing.
func (r *Recorder) Run(ctx context.Context, ready func()) error {
	tracer := trace.NewFlightRecorder(trace.FlightRecorderConfig{MinAge: window, MaxBytes: windowBytes})
	defer tracer.Stop()
	ready()
	look := time.NewTicker(rest)
	look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
			if err := tracer.Start(); err != nil && !tracer.Enabled() {
				r.log.Debug("no films of slow lookups: the tracer of this process is in use", "err", err)
			}
			look.Reset(rest)
		case <-look.C:
			if !r.busy.Swap(false) {
				tracer.Stop()
				look.Stop()
			}
		case id := <-r.slow:
			res, err := r.film(tracer, id)
			r.counts.WithLabelValues(string(res)).Inc()
			r.log.Info("a lookup was far slower than others of its class; `allium why ID --trace FILE` shows what the "+
				"process did", "lookup_id", id, "film", string(res), "err", err)
		}
	}
}

// Freeze asks for a film of a lookup that has just ended. It never waits.
func (r *Recorder) Freeze(id status.LookupID) {
	now, before := time.Since(r.began), r.latest.Load()
	if before != 0 && int64(now)-before < int64(between) || !r.latest.CompareAndSwap(before, int64(now)) {
		r.counts.WithLabelValues(string(tooSoon)).Inc()
		return
	}
	select {
	case r.slow <- id:
	default: // the one before still waits
		r.counts.WithLabelValues(string(tooSoon)).Inc()
	}
}

// film keeps the window of the tracer for a lookup.
func (r *Recorder) film(tracer *trace.FlightRecorder, id status.LookupID) (result, error) {
	if !tracer.Enabled() {
		return failed, nil
	}
	data, err := compress(func(w io.Writer) error { _, err := tracer.WriteTo(w); return err })
	switch {
	case errors.Is(err, errTooLarge):
		return tooLarge, nil
	case err != nil:
		return failed, err
	}
	r.mu.Lock()
	r.films = append(r.films, film{id, data})
	r.bytes += int64(len(data))
	if len(r.films) > MaxFilms {
		r.bytes -= int64(len(r.films[0].data))
		r.films = slices.Delete(r.films, 0, 1)
	}
	r.mu.Unlock()
	r.usage.Grown()
	return kept, nil
}

// Filmed reports whether there is a film of a lookup.
func (r *Recorder) Filmed(id status.LookupID) bool { return r.find(id) != nil }

// Film returns the film of a lookup, for `go tool trace`, or nil if there is none.
func (r *Recorder) Film(id status.LookupID) []byte {
	data := r.find(id)
	if data == nil {
		return nil
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBytes))
	if err != nil {
		panic(err) // the options are constants
	}
	defer d.Close()
	raw, err := d.DecodeAll(data, nil)
	if err != nil {
		r.log.Error("a film cannot be decompressed", "lookup_id", id, "err", err)
	}
	return raw
}

// find returns the film of a lookup as it is kept, nil if there is none. The bytes never change.
func (r *Recorder) find(id status.LookupID) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.films {
		if f.id == id {
			return f.data
		}
	}
	return nil
}

// compress returns what write writes, which is at most maxBytes, compressed to about a third.
func compress(write func(io.Writer) error) ([]byte, error) {
	var made bytes.Buffer
	z, err := zstd.NewWriter(&made, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, err
	}
	err = errors.Join(write(&bounded{to: z}), z.Close())
	return bytes.Clone(made.Bytes()), err
}

var errTooLarge = errors.New("the film is too large")

// bounded passes at most maxBytes on.
type bounded struct {
	to io.Writer
	n  int
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.n += len(p); b.n > maxBytes {
		return 0, errTooLarge
	}
	return b.to.Write(p)
}
