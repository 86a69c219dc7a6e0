package archive_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/iotest"

	"allium/node/files/archive"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// all returns a line for each entry of an archive.
func all(in archive.Reader) (lines []string, err error) {
	for {
		e, err := in.Next()
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return lines, err
		}
		line := fmt.Sprintf("%s %s", e.Name, e.Kind)
		switch {
		case e.Problem != "":
			line = e.Name + ": " + e.Problem
		case e.Kind == manifest.Link:
			line += " " + e.Target
		case e.Kind == manifest.File:
			p, err := io.ReadAll(e.Body)
			if err != nil {
				return lines, err
			}
			if e.Size >= 0 && e.Size != int64(len(p)) {
				return lines, fmt.Errorf("%s has %d bytes, not %d", e.Name, len(p), e.Size)
			}
			line += fmt.Sprintf(" %t %d", e.Executable, len(p))
		}
		lines = append(lines, line)
	}
}

// zipOf makes a zip; each of its entries is made by a function.
func zipOf(t testing.TB, entries ...func(*zip.Writer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		if err := e(w); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func entry(name string, mode fs.FileMode, content string) func(*zip.Writer) error {
	return func(w *zip.Writer) error {
		h := &zip.FileHeader{Name: name, Method: zip.Deflate}
		h.SetMode(mode)
		f, err := w.CreateHeader(h)
		if err == nil {
			_, err = io.WriteString(f, content)
		}
		return err
	}
}

func readZip(p []byte) ([]string, error) {
	z, err := archive.NewZip(bytes.NewReader(p), int64(len(p)), 10)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	return all(z)
}

func TestZip(t *testing.T) {
	t.Parallel()
	p := zipOf(t,
		entry("d/", fs.ModeDir|0o755, ""), entry("d/run", 0o755, "#!"),
		entry("d/plain", 0o644, strings.Repeat("x y ", 9)),
		entry("l", fs.ModeSymlink|0o777, "d/run"), entry("pipe", fs.ModeNamedPipe|0o644, ""),
		entry("long", fs.ModeSymlink|0o777, strings.Repeat("x", 5000)),
		func(w *zip.Writer) error {
			_, err := w.CreateRaw(&zip.FileHeader{Name: "secret", Flags: 1})
			return err
		},
		func(w *zip.Writer) error {
			_, err := w.CreateRaw(&zip.FileHeader{Name: "lzma", Method: 14})
			return err
		},
	)
	got, err := readZip(p)
	want := []string{
		"d/ directory", "d/run file true 2", "d/plain file false 36", "l link d/run",
		"pipe: it is a device or pipe; only files, directories and symbolic links can be added",
		"long: it is a link to nothing, or to more than 4096 bytes",
		"secret: it is encrypted", "lzma: it is compressed by method 14; make the zip with deflate",
	}
	if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %v\n%s", err, strings.Join(got, "\n"))
	}
	for cut := range len(p) {
		if _, err := readZip(p[:cut]); status.Of(err) != status.BadRequest {
			t.Fatalf("cut after %d of %d bytes: %v", cut, len(p), err)
		}
	}
	if _, err := readZip(zipOf(t)); err != nil {
		t.Errorf("an empty zip: %v", err)
	}
}

// TestZipBombs: what a zip would become, and how long its list is, are known before anything is unpacked.
func TestZipBombs(t *testing.T) {
	t.Parallel()
	zeros := entry("zeros", 0o644, strings.Repeat("\x00", 1<<20))
	lies := zipOf(t, func(w *zip.Writer) error { // it says that it is small
		var packed bytes.Buffer
		z, err := flate.NewWriter(&packed, 9)
		if err != nil {
			return err
		}
		if _, err := z.Write(make([]byte, 1<<20)); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		f, err := w.CreateRaw(&zip.FileHeader{
			Name: "small", Method: zip.Deflate, CompressedSize64: uint64(packed.Len()), UncompressedSize64: 100,
		})
		if err == nil {
			_, err = f.Write(packed.Bytes())
		}
		return err
	})
	for name, c := range map[string]struct {
		zip  []byte
		want status.Outcome
	}{
		"ratio":       {zipOf(t, zeros), status.DecompressCap},
		"a lie":       {lies, status.BadRequest},
		"overlaps":    {overlapping(t), status.BadRequest},
		"a million":   {manyEntries(1_000_000, 1_000_000), status.BodyCap},
		"a false end": {manyEntries(1_000_000, 1_000_000&0xffff), status.BodyCap},
		"no entries":  {manyEntries(0, 1<<40), status.BodyCap},
	} {
		got, err := readZip(c.zip)
		if status.Of(err) != c.want {
			t.Errorf("%s: %s, %v", name, err, got)
		}
	}
	if got, err := readZip(manyEntries(archive.MaxZipEntries, archive.MaxZipEntries)); err != nil ||
		len(got) != archive.MaxZipEntries {
		t.Errorf("as many as there may be: %d, %v", len(got), err)
	}
}

// overlapping returns a zip in which two entries of the list share their bytes.
func overlapping(t testing.TB) []byte {
	t.Helper()
	p := zipOf(t, entry("a", 0o644, "the same"), entry("b", 0o644, "the same"))
	// The offset of the second entry becomes that of the first one.
	second := bytes.LastIndex(p, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(p[second+42:], 0)
	return p
}

// manyEntries returns a zip with n empty files whose end says that there are said.
func manyEntries(n int, said uint64) []byte {
	const local, central = 30, 46
	p := make([]byte, local, local+1+n*(central+1)+200)
	copy(p, "PK\x03\x04")
	binary.LittleEndian.PutUint16(p[26:], 1)
	p = append(p, 'x')
	begun := len(p)
	h := make([]byte, central)
	copy(h, "PK\x01\x02")
	binary.LittleEndian.PutUint32(h[16:], crc32.ChecksumIEEE(nil))
	binary.LittleEndian.PutUint16(h[28:], 1)
	for range n {
		p = append(append(p, h...), 'x')
	}
	listed := uint64(len(p) - begun)
	end64 := make([]byte, 56)
	copy(end64, "PK\x06\x06")
	binary.LittleEndian.PutUint64(end64[4:], 44)
	binary.LittleEndian.PutUint64(end64[24:], said)
	binary.LittleEndian.PutUint64(end64[32:], said)
	binary.LittleEndian.PutUint64(end64[40:], listed)
	binary.LittleEndian.PutUint64(end64[48:], uint64(begun))
	locator := make([]byte, 20)
	copy(locator, "PK\x06\x07")
	binary.LittleEndian.PutUint64(locator[8:], uint64(len(p)))
	binary.LittleEndian.PutUint32(locator[16:], 1)
	end := make([]byte, 22)
	copy(end, "PK\x05\x06")
	binary.LittleEndian.PutUint16(end[8:], 0xffff)
	binary.LittleEndian.PutUint16(end[10:], 0xffff)
	binary.LittleEndian.PutUint32(end[12:], 0xffffffff)
	binary.LittleEndian.PutUint32(end[16:], 0xffffffff)
	return append(append(append(p, end64...), locator...), end...)
}

// TestTarEnd: a tar that was cut between two entries is none, and neither is nothing at all.
func TestTarEnd(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range []string{"a", "b"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 700}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, 700)); err != nil { // zeros, as the end marker has
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	const marker = 1024
	for cut := range len(whole) + 1 {
		_, err := all(archive.NewTar(bytes.NewReader(whole[:cut])))
		if wholeTar := cut == len(whole) || cut == len(whole)-marker/2; (err == nil) != wholeTar ||
			err != nil && status.Of(err) != status.BadRequest {
			t.Errorf("cut after %d of %d bytes: %v", cut, len(whole), err)
		}
	}
	r := io.MultiReader(bytes.NewReader(whole), bytes.NewReader(make([]byte, 9216)))
	if got, err := all(archive.NewTar(r)); err != nil || len(got) != 2 {
		t.Errorf("filled up to a record: %v, %v", got, err)
	}
	if n, err := io.Copy(io.Discard, r); n != 0 || err != nil {
		t.Errorf("%d bytes were left, %v", n, err)
	}
}

// TestFiles: a small file has a size, and a large one has all of its bytes.
func TestFiles(t *testing.T) {
	t.Parallel()
	sizes := []int{0, 1, 64 << 10, 64<<10 + 1, 200_000}
	i := -1
	in := archive.NewFiles(func() (string, io.Reader, error) {
		if i++; i == len(sizes) {
			return "", nil, io.EOF
		}
		return fmt.Sprint(sizes[i]), io.LimitReader(strings.NewReader(strings.Repeat("x", 1<<20)), int64(sizes[i])), nil
	})
	for _, size := range sizes {
		e, err := in.Next()
		if err != nil || e.Name != fmt.Sprint(size) || (e.Size < 0) != (size > 64<<10) {
			t.Fatalf("%+v, %v", e, err)
		}
		if n, err := io.Copy(io.Discard, e.Body); n != int64(size) || err != nil {
			t.Errorf("%d bytes of %d, %v", n, size, err)
		}
	}
	if _, err := in.Next(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if got := in.Consumed(); got != 1+64<<10+64<<10+1+200_000 {
		t.Errorf("%d bytes", got)
	}
}

// FuzzZip: whatever the bytes, the entries are bounded, and every error is the sender's.
// TestFileIsCut: a file that ends with an error is none, however long and whatever the error wraps.
func TestFileIsCut(t *testing.T) {
	t.Parallel()
	wrapped, end := fmt.Errorf("cut: %w", io.ErrUnexpectedEOF), fmt.Errorf("cut: %w", io.EOF)
	for _, cause := range []error{io.ErrUnexpectedEOF, wrapped, end} {
		for _, size := range []int{0, 1, 64 << 10, 64<<10 + 1, 200_000} {
			body := io.MultiReader(strings.NewReader(strings.Repeat("x", size)), iotest.ErrReader(cause))
			e, err := archive.NewFiles(func() (string, io.Reader, error) { return "cut", body, nil }).Next()
			if err == nil {
				_, err = io.Copy(io.Discard, e.Body)
			}
			if !errors.Is(err, cause) {
				t.Errorf("%d bytes, then %q: %v", size, cause, err)
			}
		}
	}
}

func FuzzZip(f *testing.F) {
	f.Add(zipOf(f, entry("d/", fs.ModeDir|0o755, ""), entry("d/run", 0o755, "#!"),
		entry("l", fs.ModeSymlink|0o777, "d/run")))
	f.Add(overlapping(f))
	f.Add(manyEntries(3, 3))
	f.Add(manyEntries(3, 1<<40))
	f.Fuzz(func(t *testing.T, p []byte) {
		z, err := archive.NewZip(bytes.NewReader(p), int64(len(p)), 10)
		total := int64(0)
		if err == nil {
			defer z.Close()
			for {
				var e archive.Entry
				if e, err = z.Next(); err != nil {
					break
				}
				if e.Body == nil {
					continue
				}
				n, readErr := io.Copy(io.Discard, e.Body)
				if total += n; readErr != nil {
					err = readErr
					break
				}
			}
		}
		if total > max(64<<10, 11*int64(len(p))) {
			t.Errorf("%d bytes became %d", len(p), total)
		}
		switch o := status.Of(err); {
		case errors.Is(err, io.EOF), o == status.BadRequest, o == status.BodyCap, o == status.DecompressCap:
		default:
			t.Errorf("%s: %v", o, err)
		}
	})
}
