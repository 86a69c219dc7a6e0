package testnet

import (
	"archive/tar"
	"bytes"
	"io"
	"path"
	"testing"

	"pgregory.net/rapid"

	"allium/gateway/api"
	"allium/protocols/status"
	"allium/testnet/script"
)

// stream is content as a node gives it, with one byte flipped at a place, -1:
// none.
func stream(t *testing.T, c content, flip int) *api.Stream {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, p := range c.parts() {
		data, err := io.ReadAll(c.open(p))
		if err != nil {
			t.Fatal(err)
		}
		if flip >= 0 && flip < len(data) {
			data[flip] ^= 1
		}
		flip -= len(data)
		if !c.tree {
			b.Write(data)
			continue
		}
		_ = tw.WriteHeader(&tar.Header{Name: path.Dir(p.path) + "/", Typeflag: tar.TypeDir})
		_ = tw.WriteHeader(&tar.Header{Name: p.path, Typeflag: tar.TypeReg, Size: p.size})
		_, _ = tw.Write(data)
	}
	if c.tree {
		if err := tw.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return &api.Stream{Body: io.NopCloser(&b)}
}

func TestContent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		c := content{
			seed: rapid.Uint64().Draw(rt, "seed"), name: "a", tree: rapid.Bool().Draw(rt, "tree"),
			size: rapid.Int64Range(1, 200<<10).Draw(rt, "size"),
		}
		sum := int64(0)
		for _, p := range c.parts() {
			sum += p.size
		}
		if sum != c.size {
			rt.Fatalf("parts of %d bytes have %d", c.size, sum)
		}
		if err := c.check(stream(t, c, -1)); err != nil {
			rt.Fatal(err)
		}
		flip := int(rapid.Int64Range(0, c.size-1).Draw(rt, "flip"))
		if err := c.check(stream(t, c, flip)); status.Of(err) != status.Corrupt {
			rt.Fatalf("byte %d flipped gives %v", flip, err)
		}
		other := c
		other.seed++
		if err := other.check(stream(t, c, -1)); c.size > 8 && status.Of(err) != status.Corrupt {
			rt.Fatalf("content of another seed gives %v", err)
		}
	})
}

func TestSumSeries(t *testing.T) {
	t.Parallel()
	const page = `# HELP up x
# TYPE up gauge
up 1
upper 5
rejected_total{peer="no",reason="busy"} 3
rejected_total{reason="busy"} 4
rejected_total{reason="busy now"} 8 1700000000
seconds_bucket{le="+Inf"} 2e1
bad{x="y"
`
	for series, want := range map[string]float64{
		"up": 1, "rejected_total": 15, `rejected_total{reason="busy"}`: 7, `rejected_total{reason="busy",peer="no"}`: 3,
		`rejected_total{reason="busy now"}`: 8, "seconds_bucket": 20, "uppe": -1, "bad": -1,
		`rejected_total{reason="bus"}`: -1,
	} {
		s, err := script.Parse("expect metric 1 " + series + " >= 1")
		if err != nil {
			t.Fatal(err)
		}
		got, found := sumSeries(page, s.Condition)
		if !found {
			got = -1
		}
		if got != want {
			t.Errorf("%s is %g, want %g", series, got, want)
		}
	}
}
