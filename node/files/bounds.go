package files

import (
	"context"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/protocols/status"
)

// Bounds are the most that a tree may have, as a caller wants it; 0 is no bound.
type Bounds struct {
	Entries int64        // files, directories and links below the directory, each as often as it occurs
	Bytes   limits.Bytes // of the files, or of the one file
}

// Check returns body_cap if what a key names has more. It reads the manifests and no file, and no more of them than it
// needs. A directory may give a false size of a file, which shows when the file is read.
func (b Bounds) Check(ctx context.Context, s api.Reader, key string) error {
	switch {
	case b == (Bounds{}):
		return nil
	case b.Entries < 0 || b.Bytes < 0:
		return status.Errorf(status.BadRequest, "the most entries and bytes are not negative")
	}
	st, err := s.Stat(ctx, key)
	if err != nil {
		return err
	}
	c := &bounded{most: b, s: s, key: key}
	if st.Kind == api.File {
		return c.count(0, st.Size)
	}
	return c.below(ctx, st.Root.String(), 1)
}

// maxNested is the most directories inside each other, as in an extraction.
const maxNested = 255

// bounded counts the entries of a tree.
type bounded struct {
	most           Bounds
	s              api.Reader
	key            string
	entries, bytes int64
}

// count counts entries and bytes.
func (c *bounded) count(entries, bytes int64) error {
	c.entries += entries
	switch {
	case c.most.Entries > 0 && c.entries > c.most.Entries:
		return status.Errorf(status.BodyCap, "%s has more than %d entries. Allow more, or get a directory in it",
			c.key, c.most.Entries)
	case c.most.Bytes > 0 && bytes > int64(c.most.Bytes)-c.bytes:
		return status.Errorf(status.BodyCap, "%s has more than %s. Allow more, or get a part of it",
			c.key, c.most.Bytes.Human())
	}
	c.bytes += bytes
	return nil
}

// below counts what is below a directory.
func (c *bounded) below(ctx context.Context, root string, depth int) error {
	if depth > maxNested {
		return status.Errorf(status.BadRequest, "%s has more than %d directories inside each other", c.key, maxNested)
	}
	var dirs []string
	for e, err := range c.s.List(ctx, root) {
		if err != nil {
			return err
		}
		size := int64(0)
		switch e.Kind {
		case api.File:
			size = e.Size
		case api.Directory:
			dirs = append(dirs, e.Root.String())
		}
		if err := c.count(1, size); err != nil {
			return err
		}
	}
	for _, dir := range dirs {
		if err := c.below(ctx, dir, depth+1); err != nil {
			return err
		}
	}
	return nil
}
