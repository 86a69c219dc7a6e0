package opener

import (
	"bytes"
	"context"
	"io"
	"testing"

	"allium/gateway/content"
	"allium/protocols/b3"
	"allium/protocols/bao"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// exampleOpener opens the objects of an example alone.
type exampleOpener struct{ *Example }

func (o exampleOpener) Open(_ context.Context, root b3.Root, _ content.OpenOptions) (content.Content, error) {
	if c, ok := o.open(root); ok {
		return c, nil
	}
	return nil, status.Errorf(status.NotFound, "no %s", root)
}

// TestExample walks the directory that every node has, and proves each object and its encoding.
func TestExample(t *testing.T) {
	d, err := NewExample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again, err := NewExample(t.Context())
	if err != nil || again.Root != d.Root {
		t.Errorf("made again it is %s (%v), not %s", again.Root, err, d.Root)
	}
	found := map[string]bool{}
	get := Manifests(exampleOpener{d})
	for e, err := range manifest.Entries(t.Context(), get, d.Root) {
		if err != nil {
			t.Fatal(err)
		}
		found[e.Name] = true
	}
	if !found["Welcome.md"] || !found["hello.txt"] || !found["pictures"] {
		t.Errorf("it has %v", found)
	}
	for root := range d.objects {
		c, ok := d.open(root)
		var plain, encoded bytes.Buffer
		if !ok || c.Copy(t.Context(), &plain, 0, c.Size()) != nil || b3.Sum(plain.Bytes()) != root {
			t.Fatalf("%s has other bytes", root)
		}
		if err := c.Encode(t.Context(), &encoded, 0, c.Size()); err != nil {
			t.Fatal(err)
		}
		proved, err := io.ReadAll(bao.NewDecoder(root, b3.Range{Start: 0, End: c.Size()}, &encoded))
		if err != nil || !bytes.Equal(proved, plain.Bytes()) {
			t.Errorf("%s: %v", root, err)
		}
	}
	if _, ok := d.open(b3.Sum([]byte("other"))); ok {
		t.Error("it has an object of others")
	}
}
