package exchange

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"allium/internal/cores"
	"allium/protocols/status"
)

// decoding returns what decodes bodies, two at once.
func decoding() *Bodies {

	return NewBodies(BodyConfig{
		Decoders: 2, DecompressRatio: 10, DecompressBytes: 10 << 20, BodyBytes: 1 << 20,
	}, 8<<10, nil)
}

func gzipped(t testing.TB, parts ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, p := range parts { // a member each
		z := gzip.NewWriter(&b)
		_, err := z.Write(p)
		if err = errors.Join(err, z.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// zstdFrame is a frame without a checksum, so that its last byte is of its last
// block.
func zstdFrame(t testing.TB, p []byte, o ...zstd.EOption) []byte {
	t.Helper()
	e, err := zstd.NewWriter(nil, append([]zstd.EOption{
		zstd.WithEncoderCRC(false), zstd.WithEncoderConcurrency(1),
	}, o...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	return e.EncodeAll(p, nil)
}

// skippable is a zstd frame of n bytes, at least 8, that decodes to nothing.
func skippable(n int) []byte {
	p := binary.LittleEndian.AppendUint32(nil, 0x184d2a50)
	p = binary.LittleEndian.AppendUint32(p, uint32(n-8))
	return append(p, make([]byte, n-8)...)
}

func noise(n int) []byte {
	p := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(p)
	return p
}

func decodeAll(g *Bodies, encoding string, body io.Reader, most int64) ([]byte, error) {
	r, done, err := g.Decode(Origin{}, http.Header{"Content-Encoding": {encoding}}, body, most)
	if err != nil {
		return nil, err
	}
	defer done()
	return io.ReadAll(r)
}

func TestEncodings(t *testing.T) {
	t.Parallel()
	for encodings, want := range map[string]string{
		"": "", "identity": "", "IDENTITY": "", " , ": "", "gzip": "gzip", "GZip": "gzip", "x-gzip": "gzip",
		" zstd ,": "zstd",
		"br":      "!", "deflate": "!", "compress": "!", "gzip, gzip": "!", "gzip,zstd": "!", "zstd|gzip": "!",
		"identity, gzip": "!", "aes128gcm": "!", strings.Repeat("x", 1000): "!",
	} {
		h := http.Header{}
		for e := range strings.SplitSeq(encodings, "|") { // header lines
			h.Add("Content-Encoding", e)
		}
		got, err := EncodingOf(h)
		if want == "!" {
			if status.Of(err) != status.Unsupported || len(err.Error()) > 300 {
				t.Errorf("%q: %q, %v", encodings, got, err)
			}
			continue
		}
		if got != want || err != nil {
			t.Errorf("%q: %q, %v", encodings, got, err)
		}
	}
}

// TestDecode: what comes out is what went in, however it is cut into members,
// frames and reads.
func TestDecode(t *testing.T) {
	t.Parallel()
	g := decoding()
	a, b := noise(100_000), bytes.Repeat([]byte("allium "), 1000)
	whole := append(bytes.Clone(a), b...)
	big := noise(3 << 20)
	for name, c := range map[string]struct {
		encoding string
		body     []byte
		want     []byte
	}{
		"plain":      {"", whole, whole},
		"identity":   {"identity", whole, whole},
		"gzip":       {"gzip", gzipped(t, whole), whole},
		"members":    {"gzip", gzipped(t, a, nil, b), whole},
		"empty gzip": {"gzip", gzipped(t, nil), nil},
		"zstd":       {"zstd", zstdFrame(t, whole), whole},
		"frames":     {"zstd", bytesOf(zstdFrame(t, a), skippable(100), zstdFrame(t, b)), whole},
		"checksum":   {"zstd", zstdFrame(t, whole, zstd.WithEncoderCRC(true)), whole},
		"largest window": {"zstd", zstdFrame(t, big, zstd.WithWindowSize(zstdWindow),
			zstd.WithSingleSegment(false)), big},
		"one gzip at most": {"gzip", gzipped(t, gzipped(t, a)), gzipped(t, a)},
	} {
		for how, wrap := range map[string]func(io.Reader) io.Reader{
			"": func(r io.Reader) io.Reader { return r }, "halves": iotest.HalfReader,
			"data with the end": iotest.DataErrReader,
		} {
			got, err := decodeAll(g, c.encoding, wrap(bytes.NewReader(c.body)), -1)
			if err != nil || !bytes.Equal(got, c.want) {
				t.Errorf("%s %s: %d bytes, %v", name, how, len(got), err)
			}
		}
	}
}

func bytesOf(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// TestDecodeDamage: what is not whole is refused, and an error of the body is
// not taken for one of the encoding.
func TestDecodeDamage(t *testing.T) {
	t.Parallel()
	g := decoding()
	plain := noise(200_000)
	for name, whole := range map[string][]byte{
		"gzip": gzipped(t, plain), "zstd": zstdFrame(t, plain, zstd.WithEncoderCRC(true)),
	} {
		flipped := bytes.Clone(whole)
		flipped[len(flipped)-6] ^= 1 // of the checksum
		for what, body := range map[string][]byte{
			"nothing": nil, "half a header": whole[:3], "half": whole[:len(whole)/2],
			"all but a byte":      whole[:len(whole)-1],
			"something behind it": bytesOf(whole, []byte("garbage")), "another checksum": flipped,
			"another encoding": plain,
		} {
			if what == "another checksum" && name == "zstd" {
				body = bytes.Clone(whole)
				body[len(body)-1] ^= 1
			}
			if got, err := decodeAll(g, name, bytes.NewReader(body), -1); status.Of(err) != status.BadRequest {
				t.Errorf("%s, %s: %d bytes, %v", name, what, len(got), err)
			}
		}
		cut := status.Errorf(status.Timeout, "slow")
		if _, err := decodeAll(g, name, io.MultiReader(bytes.NewReader(whole[:1000]), iotest.ErrReader(cut)),
			-1); !errors.Is(err, cut) {
			t.Errorf("%s: %v", name, err)
		}
	}
	far := zstdFrame(t, noise(zstdWindow+1), zstd.WithWindowSize(2*zstdWindow), zstd.WithSingleSegment(false))
	for name, body := range map[string][]byte{
		"window": far, "one segment": zstdFrame(t, noise(2*zstdWindow), zstd.WithSingleSegment(true)),
	} {
		if _, err := decodeAll(g, "zstd", bytes.NewReader(body), -1); status.Of(err) != status.Unsupported {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBombs: the ratio is exact, counted over members and frames together, and
// from 64 KiB of output on.
func TestBombs(t *testing.T) {
	t.Parallel()
	g := decoding()
	zeros := make([]byte, 10<<20)
	padded := func(out, in int) []byte { // decodes to out zeros and has in bytes
		frame := zstdFrame(t, zeros[:out])
		return bytesOf(skippable(in-len(frame)), frame)
	}
	for name, c := range map[string]struct {
		encoding string
		body     []byte
		want     int // −1: decompress_cap
	}{
		"gzip": {"gzip", gzipped(t, zeros), -1},
		"zstd": {"zstd", zstdFrame(t, zeros), -1},
		// one layer is undone
		"nested":  {"gzip", gzipped(t, gzipped(t, zeros)), len(gzipped(t, zeros))},
		"members": {"gzip", gzipped(t, zeros[:50_000], zeros[:50_000], zeros[:50_000]), -1},
		"frames":  {"zstd", bytesOf(zstdFrame(t, zeros[:50_000]), zstdFrame(t, zeros[:50_000])), -1},
		"noise first": {"zstd", bytesOf(zstdFrame(t, noise(20_000)),
			zstdFrame(t, zeros[:170_000])), 190_000},
		"noise last":                 {"zstd", bytesOf(zstdFrame(t, zeros[:170_000]), zstdFrame(t, noise(20_000))), -1},
		"at the floor":               {"zstd", zstdFrame(t, zeros[:ratioFloor]), ratioFloor},
		"one over the floor":         {"zstd", zstdFrame(t, zeros[:ratioFloor+1]), -1},
		"gzip at the floor":          {"gzip", gzipped(t, zeros[:ratioFloor]), ratioFloor},
		"gzip one over the floor":    {"gzip", gzipped(t, zeros[:ratioFloor+1]), -1},
		"members at the floor":       {"gzip", gzipped(t, zeros[:ratioFloor-1], zeros[:1]), ratioFloor},
		"members one over the floor": {"gzip", gzipped(t, zeros[:ratioFloor], zeros[:1]), -1},
		"at the ratio":               {"zstd", padded(100_000, 10_000), 100_000},
		"one over the ratio":         {"zstd", padded(100_000, 9_999), -1},
	} {
		got, err := decodeAll(g, c.encoding, bytes.NewReader(c.body), -1)
		if c.want < 0 {
			// A block, or a window of gzip, is decoded before it is counted.
			if status.Of(err) != status.DecompressCap || len(got) > ratioFloor+10*len(c.body)+(128<<10) {
				t.Errorf("%s: %d bytes, %v", name, len(got), err)
			}
			continue
		}
		if err != nil || len(got) != c.want {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

// TestDecodeCap: what is held in memory is bounded in bytes too.
func TestDecodeCap(t *testing.T) {
	t.Parallel()
	g := decoding()
	p := noise(100_000)
	for encoding, body := range map[string][]byte{"gzip": gzipped(t, p), "zstd": zstdFrame(t, p)} {
		if got, err := decodeAll(g, encoding, bytes.NewReader(body), 100_000); err != nil || len(got) != 100_000 {
			t.Errorf("%s: %d bytes, %v", encoding, len(got), err)
		}
		if _, err := decodeAll(g, encoding, bytes.NewReader(body), 99_999); status.Of(err) != status.DecompressCap {
			t.Errorf("%s: %v", encoding, err)
		}
	}
	if got, err := decodeAll(g, "", bytes.NewReader(p), 100_000); err != nil || len(got) != 100_000 {
		t.Errorf("plain: %d bytes, %v", len(got), err)
	}
	if _, err := decodeAll(g, "", bytes.NewReader(p), 99_999); status.Of(err) != status.BodyCap {
		t.Errorf("plain: %v", err)
	}
}

// TestDecoders: only so many at a time, and a place is given back.
func TestDecoders(t *testing.T) {
	t.Parallel()
	g := decoding()
	h := http.Header{"Content-Encoding": {"gzip"}}
	_, first, err1 := g.Decode(Origin{}, h, strings.NewReader(""), -1)
	_, second, err2 := g.Decode(Origin{}, h, strings.NewReader(""), -1)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if _, _, err := g.Decode(Origin{}, h, strings.NewReader(""), -1); status.Of(err) != status.Busy {
		t.Errorf("the third of two: %v", err)
	}
	if _, done, err := g.Decode(Origin{}, http.Header{}, strings.NewReader(""), -1); err != nil {
		t.Errorf("plain: %v", err)
	} else {
		done()
	}
	first()
	if _, done, err := g.Decode(Origin{}, h, strings.NewReader(""), -1); err != nil {
		t.Errorf("after the first: %v", err)
	} else {
		done()
	}
	second()
}

// TestDecodersAreShared: one client cannot take all places, and another finds one.
func TestDecodersAreShared(t *testing.T) {
	t.Parallel()
	g := NewBodies(DefaultBodyConfig(), 8<<10, nil)
	h := http.Header{"Content-Encoding": {"zstd"}}
	from := func(host byte) Origin {
		return Origin{Group: netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 0, 0, host}), 32)}
	}
	taken := 0
	for ; taken < 16; taken++ {
		_, done, err := g.Decode(from(2), h, strings.NewReader(""), -1)
		if err != nil {
			if status.Of(err) != status.Busy {
				t.Error(err)
			}
			break
		}
		defer done()
	}
	if taken != 6 {
		t.Errorf("one client has %d of 16 decoders", taken)
	}
	_, done, err := g.Decode(from(3), h, strings.NewReader(""), -1)
	if err != nil {
		t.Fatal(err)
	}
	done()
}

// FuzzDecode: whatever comes, the output stays within its bounds and errors
// have an outcome.
func FuzzDecode(f *testing.F) {
	f.Add(true, gzipped(f, []byte("hello"), []byte("again")))
	f.Add(true, gzipped(f, make([]byte, 1<<20)))
	f.Add(false, zstdFrame(f, []byte("hello")))
	f.Add(false, zstdFrame(f, make([]byte, 1<<20)))
	f.Add(false, append(skippable(20), zstdFrame(f, noise(300))...))
	g := decoding()
	f.Fuzz(func(t *testing.T, gz bool, body []byte) {
		encoding := "zstd"
		if gz {
			encoding = "gzip"
		}
		got, err := decodeAll(g, encoding, bytes.NewReader(body), 1<<20)
		if len(got) > 1<<20 || len(got) > ratioFloor && len(got) > 10*len(body) {
			t.Errorf("%d bytes of %d", len(got), len(body))
		}
		switch status.Of(err) {
		case status.OK, status.BadRequest, status.Unsupported, status.DecompressCap:
		case status.Busy: // the other fuzz workers have the places
		default:
			t.Errorf("%v", err)
		}
	})
}

// busyReader is a client that sends a byte at a time, and only while no core of the pool is taken.
type busyReader struct {
	io.Reader
	t    *testing.T
	pool *cores.Pool
}

func (b busyReader) Read(p []byte) (int, error) {
	if n := b.pool.InUse(); n > 0 {
		b.t.Errorf("%d cores are taken while the client sends", n)
	}
	return b.Reader.Read(p[:1])
}

// TestDecoderSharesCores: a decoder waits for a core, and has none while it waits for the client.
func TestDecoderSharesCores(t *testing.T) {
	text := bytes.Repeat([]byte("a line of an upload\n"), 400)
	for coding, body := range map[string][]byte{"gzip": gzipped(t, text, text), "zstd": zstdFrame(t, text)} {
		synctest.Test(t, func(t *testing.T) {
			pool, g := cores.New(1), decoding()
			g.cfg.DecompressRatio, g.Cores = 1000, pool
			r, done, err := g.Decode(Origin{}, http.Header{"Content-Encoding": {coding}},
				busyReader{bytes.NewReader(body), t, pool}, -1)
			if err != nil {
				t.Fatal(err)
			}
			defer done()
			pool.Enter(cores.Foreground)
			got := make(chan []byte, 1)
			go func() {
				p, err := io.ReadAll(r)
				if err != nil {
					t.Error(err)
				}
				got <- p
			}()
			synctest.Wait()
			if len(got) > 0 || pool.Waiting() != 1 {
				t.Errorf("%s: %d wait for a core", coding, pool.Waiting())
			}
			pool.Leave(cores.Foreground)
			if p := <-got; !bytes.HasPrefix(p, text) || pool.InUse() != 0 {
				t.Errorf("%s: %d bytes, %d cores are taken", coding, len(p), pool.InUse())
			}
		})
	}
}
