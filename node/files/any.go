package files

import (
	"hash/maphash"
	"io"
	"strings"

	"allium/gateway/api"
	"allium/node/files/archive"
	"allium/protocols/manifest"
)

// listBytes is the maximum number of bytes of a refused archive that are still read, to list more of its
// bad entries.
const listBytes = 256 << 20

// anyItems yields the entries of an archive that any program made, in the order of
// the archive, for a sorter. It cleans paths: it drops "./" and an entry for "." itself.
// With a top, all of them are below a directory of that name, and "." is that directory.
// It writes names and link targets in Unicode normal form C. It records bad entries
// in notes and skips them. Unless onBad is to skip, it yields no item after the first
// bad entry, and ends with an error that lists the bad entries.
func anyItems(in archive.Reader, top string, notes *addNotes, onBad api.OnBadEntry) Items {
	return func(yield func(Item, error) bool) {
		refusing, until := false, int64(0)
		for {
			e, err := in.Next()
			if err == io.EOF { //nolint:errorlint // an error that wraps it is no regular end
				break
			}
			if err != nil {
				yield(Item{}, err)
				return
			}
			it, reason := anyItem(e, top, notes)
			if reason != "" {
				notes.skipped(e.Name, reason)
				if onBad != api.SkipBadEntries && !refusing {
					refusing, until = true, in.Consumed()+listBytes
				}
			}
			if refusing && (in.Consumed() > until || len(notes.n.Skipped) == api.MaxNotes) {
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

// anyItem returns the item of an entry. Its path is empty when there is nothing to
// add. reason says why the entry is bad.
func anyItem(e archive.Entry, top string, notes *addNotes) (it Item, reason string) {
	path, rawHash, reason := entryPath(e.Name)
	if reason != "" {
		return Item{}, reason
	}
	if top != "" {
		path = strings.TrimSuffix(top+"/"+path, "/")
	}
	if path == "" {
		return Item{}, ""
	}
	it = Item{
		Path: path, Kind: e.Kind, Executable: e.Executable, Root: e.Root, Body: e.Body, Size: e.Size, rawHash: rawHash,
	}
	inner := innerPath(path)
	switch {
	case e.Problem != "":
		return it, e.Problem
	case inner == "" && top != "" && e.Kind != manifest.Directory:
		return it, "it has no name"
	case e.Kind == manifest.Link && inner == "":
		return it, "a link has no content; add what it points to"
	case e.Kind == manifest.Link:
		it.Target = manifest.Normal(e.Target)
		if reason = manifest.LinkProblem(inner, it.Target); reason != "" {
			return it, reason
		}
		if it.Target != e.Target {
			notes.renamed(e.Name, it.Target)
		}
	}
	if reason = manifest.PathProblem(inner, it.Kind); reason != "" {
		return it, reason
	}
	raw := strings.TrimRight(e.Name, "/")
	if name := path[strings.LastIndexByte(path, '/')+1:]; rawHash != 0 && !strings.HasSuffix(raw, name) {
		notes.renamed(e.Name, name)
	}
	return it, ""
}

// pathSeed is the seed of the hashes of paths, which stay in this process.
var pathSeed = maphash.MakeSeed()

// entryPath returns the clean path of an entry; it is empty for the top directory of
// the archive. rawHash is the hash of the path before it was normalised, 0 when that did
// not change it. reason says why a tree cannot hold the path.
func entryPath(name string) (path string, rawHash uint64, reason string) {
	if strings.HasPrefix(name, "/") {
		return "", 0, "its path is absolute"
	}
	var names []string
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." {
			continue
		}
		if part == ".." {
			return "", 0, "its path leads out of the archive"
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
