package node_test

import (
	"encoding/base64"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"allium/gateway/policy/capabilities"
	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/object"
	"allium/store"
)

// BenchmarkPut replicates an object to another node and fetches it from there into a third
// one, in turns. The ratio of the rates, and of the CPU time, is what counts.
func BenchmarkPut(b *testing.B) {
	const size = 256 << 20
	p := joined(b, nil)
	to, from, asker, id := p.to, p.from, start(b, joining(p.to)), p.id
	var caveats []capability.Caveat
	for _, s := range []string{
		"op in replicate", "aud = " + to.ID().ID, "exp < " + time.Now().Add(9*time.Minute).UTC().Format(time.RFC3339),
	} {
		c, err := capability.ParseCaveat(s)
		if err != nil {
			b.Fatal(err)
		}
		caveats = append(caveats, c)
	}
	text, err := capabilities.Open(to.home).Mint(b.Context(), caveats...)
	if err != nil {
		b.Fatal(err)
	}
	var put, fetch struct{ wall, cpu time.Duration }
	measure := func(wall, cpu *time.Duration, f func()) {
		begin, used := time.Now(), cpuTime(b)
		f()
		*wall += time.Since(begin)
		*cpu += cpuTime(b) - used
	}
	r := rand.NewChaCha8([32]byte{7})
	for b.Loop() {
		info, err := from.Store().Put(b.Context(), &limited{r, size}, store.PutOptions{})
		if err != nil {
			b.Fatal(err)
		}
		obj, err := from.Store().Open(b.Context(), info.Root)
		if err != nil {
			b.Fatal(err)
		}
		measure(&put.wall, &put.cpu, func() {
			_, err = from.ObjectClient().Put(b.Context(), id, obj, object.PutOptions{Capability: decoded(b, text)})
		})
		_ = obj.Close()
		if err != nil {
			b.Fatal(err)
		}
		testkit.Eventually(b, "the object is found", func() bool {
			has, err := asker.ObjectClient().Have(b.Context(), id, []b3.Root{info.Root})
			return err == nil && has[0] == b3.Complete
		})
		measure(&fetch.wall, &fetch.cpu, func() { _, err = asker.api.Fetch(b.Context(), info.Root.String(), nil) })
		if err != nil {
			b.Fatal(err)
		}
		for _, n := range []*running{from, asker} {
			_ = n.Store().Delete(b.Context(), info.Root)
		}
	}
	b.ReportMetric(fetch.wall.Seconds()/put.wall.Seconds(), "rate-of-fetch")
	b.ReportMetric(put.cpu.Seconds()/fetch.cpu.Seconds(), "cpu-of-fetch")
	b.ReportMetric(float64(b.N)*size/1e6/put.wall.Seconds(), "put-MB/s")
}

// cpuTime is what the process has used.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// limited reads n random bytes.
type limited struct {
	r *rand.ChaCha8
	n int
}

func (l *limited) Read(p []byte) (int, error) {
	if l.n == 0 {
		return 0, io.EOF
	}
	p = p[:min(len(p), l.n)]
	l.n -= len(p)
	return l.r.Read(p)
}

// decoded returns the binary form of a capability.
func decoded(b testing.TB, text string) []byte {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		b.Fatal(err)
	}
	return raw
}
