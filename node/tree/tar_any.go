package tree

import (
	"archive/tar"
	"errors"
	"hash/maphash"
	"io"
	"strings"

	"allium/gateway/api"
	"allium/protocols/manifest"
)

// listBytes is how many bytes of a refused tar are still read, to list more of its
// bad entries.
const listBytes = 256 << 20

// anyTarItems yields the entries of a tar that any program made, in the order of
// the tar, for a sorter. It cleans paths: it drops "./" and an entry for "." itself.
// It writes names and link targets in Unicode normal form C. It records bad entries
// in notes and skips them. Unless onBad is to skip, it yields no item after the first
// bad entry, and ends with an error that lists the bad entries.
func anyTarItems(r io.Reader, notes *addNotes, onBad api.OnBadEntry) Items {
	return func(yield func(Item, error) bool) {
		in := &countedTar{r: r}
		tr := tar.NewReader(in)
		refusing := false
		for {
			h, err := tr.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				yield(Item{}, tarError(err))
				return
			}
			it, reason, err := tarItem(tr, h, notes)
			if err != nil {
				yield(Item{}, err)
				return
			}
			if reason != "" {
				notes.skipped(h.Name, reason)
				if onBad != api.SkipBadEntries && !refusing {
					refusing, in.left = true, listBytes
				}
			}
			if refusing && (in.left < 0 || len(notes.n.Skipped) == api.MaxNotes) {
				yield(Item{}, notes.refusal(true))
				return
			}
			if refusing || reason != "" || it.Path == "" {
				continue
			}
			if !yield(it, nil) {
				return
			}
		}
		if refusing {
			yield(Item{}, notes.refusal(false))
		}
	}
}

// countedTar counts the bytes that are read down from left, below zero too.
type countedTar struct {
	r    io.Reader
	left int64
}

func (c *countedTar) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.left -= int64(n)
	return n, err
}

// tarItem returns the item of a header. Its path is empty when there is nothing to
// add. reason says why the entry is bad.
func tarItem(tr *tar.Reader, h *tar.Header, notes *addNotes) (it Item, reason string, err error) {
	if h.Typeflag == tar.TypeXGlobalHeader { // git archive writes it
		return Item{}, "", nil
	}
	path, rawHash, reason := tarPath(h.Name)
	if reason != "" || path == "" {
		return Item{}, reason, nil
	}
	it.Path, it.rawHash = path, rawHash
	inner := innerPath(path)
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		if it.Root, err = reference(h); err != nil {
			return Item{}, "", err
		}
		it.Kind, it.Executable = manifest.File, h.Mode&0o111 != 0
		it.Body, it.Size = tarBody{tr}, h.Size
	case tar.TypeDir:
		it.Kind = manifest.Directory
	case tar.TypeSymlink:
		it.Kind, it.Target = manifest.Link, manifest.Normal(h.Linkname)
		if inner == "" {
			return it, "a link has no content of its own; add what it points to", nil
		}
		if reason = manifest.LinkProblem(inner, it.Target); reason != "" {
			return it, reason, nil
		}
		if it.Target != h.Linkname {
			notes.renamed(h.Name, it.Target)
		}
	case tar.TypeLink:
		return it, "it is a hard link; make the tar with --hard-dereference", nil
	default:
		return it, "it is a device or pipe; only files, directories and symbolic links can be added", nil
	}
	if reason = manifest.PathProblem(inner, it.Kind); reason != "" {
		return it, reason, nil
	}
	raw := strings.TrimRight(h.Name, "/")
	if name := path[strings.LastIndexByte(path, '/')+1:]; rawHash != 0 && !strings.HasSuffix(raw, name) {
		notes.renamed(h.Name, name)
	}
	return it, "", nil
}

// pathSeed is the seed of the hashes of paths, which stay in this process.
var pathSeed = maphash.MakeSeed()

// tarPath returns the clean path of an entry; it is empty for the top directory of
// the tar. rawHash is the hash of the path before it was normalised, 0 when that did
// not change it. reason says why a tree cannot hold the path.
func tarPath(name string) (path string, rawHash uint64, reason string) {
	if strings.HasPrefix(name, "/") {
		return "", 0, "its path is absolute"
	}
	var names []string
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." {
			continue
		}
		if part == ".." {
			return "", 0, "its path leads out of the tar"
		}
		if reason := manifest.NameProblem(manifest.Normal(part)); reason != "" {
			return "", 0, reason
		}
		names = append(names, part)
	}
	raw := strings.Join(names, "/")
	if path = manifest.Normal(raw); path != raw {
		rawHash = max(1, maphash.String(pathSeed, raw))
	}
	return path, rawHash, ""
}
