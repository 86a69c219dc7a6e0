package reading

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"allium/gateway/api"
	"allium/node/files"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/resolver/names"
)

// hostileEntry is an entry as it is on the wire (OAP1.md §11), unchecked.
type hostileEntry struct {
	Name   string `cbor:"0,keyasint,omitempty"`
	Kind   uint8  `cbor:"1,keyasint,omitempty"`
	Digest []byte `cbor:"2,keyasint,omitempty"`
	Size   int64  `cbor:"3,keyasint,omitempty"`
	Target string `cbor:"5,keyasint,omitempty"`
}

// directory puts a manifest that nobody checked.
func (s *shelf) directory(t *testing.T, entries ...hostileEntry) (b3.Root, int64) {
	t.Helper()
	mode, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		t.Fatal(err)
	}
	p, err := mode.Marshal(struct {
		Kind    uint8          `cbor:"0,keyasint"`
		Entries []hostileEntry `cbor:"1,keyasint,omitempty"`
	}{1, entries})
	if err != nil {
		t.Fatal(err)
	}
	p = append([]byte(manifest.Magic), p...)
	return s.put(p), int64(len(p))
}

// TestHostileDirectories: what proves can still be made to do harm. Nothing of it
// is written, neither by a get nor, outside its target, by an update.
func TestHostileDirectories(t *testing.T) {
	t.Parallel()
	s := &shelf{}
	content := s.put([]byte("evil"))
	file := func(name string) hostileEntry { return hostileEntry{Name: name, Digest: content[:], Size: 4} }
	link := func(name, target string) hostileEntry { return hostileEntry{Name: name, Kind: 2, Target: target} }
	sub := func(name string, entries ...hostileEntry) hostileEntry {
		root, size := s.directory(t, entries...)
		return hostileEntry{Name: name, Kind: 1, Digest: root[:], Size: size}
	}
	deep := sub("d", file("f"))
	for range 300 {
		deep = sub("d", deep)
	}
	for name, entries := range map[string][]hostileEntry{
		"parent":            {file("..")},
		"below the parent":  {file("../evil")},
		"itself":            {file(".")},
		"absolute":          {file("/tmp/evil")},
		"slash":             {file("a/b")},
		"NUL":               {file("a\x00b")},
		"no name":           {file("")},
		"long":              {file(strings.Repeat("a", 256))},
		"twice":             {file("a"), file("a")},
		"out of order":      {file("b"), file("a")},
		"case":              {file("A"), file("a")},
		"not normal":        {file("e\u0301")},
		"deep":              {deep},
		"parent, further":   {sub("a", sub("b", file("..")))},
		"a wrong size":      {{Name: "a", Digest: content[:], Size: 5}},
		"a negative size":   {{Name: "a", Digest: content[:], Size: -1}},
		"a directory's":     {{Name: "a", Kind: 1, Digest: content[:], Size: 4}},
		"no such kind":      {{Name: "a", Kind: 9, Digest: content[:], Size: 4}},
		"link out":          {link("a", "../../evil")},
		"link to root":      {link("a", "/etc")},
		"link, then out":    {link("a", "b/../../evil"), sub("b")},
		"through a link":    {link("a", "."), file("a")},
		"a link with bytes": {{Name: "a", Kind: 2, Digest: content[:], Size: 4, Target: "b"}},
	} {
		root, _ := s.directory(t, entries...)
		r := New(Options{Source: Ahead(s), Keys: names.Addresses{}})
		dir := t.TempDir()
		err := func() error {
			stream, err := r.Get(t.Context(), root.String())
			if err != nil {
				return err
			}
			defer stream.Body.Close()
			if stream.Kind != api.Directory {
				return status.Errorf(status.Corrupt, "it is taken for a %s", stream.Kind)
			}
			return files.Extract(stream, filepath.Join(dir, "out"), files.ExtractOptions{}, nil)
		}()
		left, rerr := os.ReadDir(dir)
		if err == nil || rerr != nil || len(left) > 0 {
			t.Errorf("%s: %v; left: %v", name, err, left)
		}
		_, _, uerr := files.Update(t.Context(), r, root.String(), filepath.Join(dir, "out"), files.UpdateOptions{}, nil)
		left, rerr = os.ReadDir(dir)
		if rerr != nil || len(left) > 1 {
			t.Errorf("%s: update: %v; left: %v", name, uerr, left)
		}
		if uerr == nil { // what does not decode is a file
			if fi, err := os.Stat(filepath.Join(dir, "out")); err != nil || fi.IsDir() {
				t.Errorf("%s: an update took it", name)
			}
		}
	}
}
