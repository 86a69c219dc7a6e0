package api

import (
	"context"
	"iter"
	"os"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// Reader reads objects from a node or through a gateway. In both cases their bytes are
// verified. A key is "b3:<hex>[/path]". Every error has an outcome (status.Of).
//
// A sequence yields each value as soon as it is known, and at most one error, which
// ends it. When the caller stops early, the work for the sequence stops too.
type Reader interface {
	// Get returns a file's bytes or a directory as a tar stream, verified.
	Get(ctx context.Context, key string) (*Stream, error)
	// Cat returns bytes [r.Start, r.End) of a file, verified. End −1 is its end.
	Cat(ctx context.Context, key string, r b3.Range) (*Stream, error)
	// List yields the entries of a directory in bytewise order of their names.
	List(ctx context.Context, key string) iter.Seq2[Entry, error]
	// Diff yields the entries that differ between two keys, a directory before its
	// entries. With an empty key, every entry of the other key is added or removed.
	// Diff reads only directories that differ, and no files.
	Diff(ctx context.Context, from, to string) iter.Seq2[Change, error]
	// Files returns 1 to MaxRoots files as a tar stream, verified, in the given order.
	// Their names are their digests.
	Files(ctx context.Context, roots []b3.Root) (*Stream, error)
	// Stat describes an object and says whether this node has all of it.
	Stat(ctx context.Context, key string) (Stat, error)
}

var readerVerbs = []*Verb{verbList.Verb, verbDiff.Verb, verbStat.Verb}

type diffRequest struct {
	From string `query:"from" doc:"a key; empty: nothing"`
	To   string `query:"to" doc:"a key; empty: nothing. One of the two is needed"`
}

var (
	verbList = items(Spec{
		ID: "List", Path: "ls",
		Doc: "Lists the entries of a directory in bytewise order of their names.", Answer: "the entries",
	}, func(n Node, ctx context.Context, r AskedRequest) iter.Seq2[Entry, error] { return n.List(ctx, r.Key) })
	verbDiff = items(Spec{
		ID: "Diff", Path: "diff",
		Doc: "Lists the entries that differ between two keys.", Answer: "the entries that differ",
	}, func(n Node, ctx context.Context, r diffRequest) iter.Seq2[Change, error] {
		if r == (diffRequest{}) {
			return failed[Change](status.Errorf(status.BadRequest,
				"cannot compare: neither from nor to has a key. Give at least one"))
		}
		return n.Diff(ctx, r.From, r.To)
	})
	verbStat = value(Spec{
		ID: "Stat", Path: "stat", Manages: true,
		Doc: "Describes an object, and whether the node has it.", Answer: "the object",
	}, func(n Node, ctx context.Context, r AskedRequest) (Stat, error) { return n.Stat(ctx, r.Key) })
)

// failed returns a sequence of an error.
func failed[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		yield(zero, err)
	}
}

// List implements Reader.
func (r remoteReader) List(ctx context.Context, key string) iter.Seq2[Entry, error] {
	return verbList.seq(ctx, r.caller, r.Asked(key))
}

// Diff implements Reader.
func (r remoteReader) Diff(ctx context.Context, from, to string) iter.Seq2[Change, error] {
	return verbDiff.seq(ctx, r.caller, diffRequest{from, to})
}

// Stat implements Reader.
func (r remoteReader) Stat(ctx context.Context, key string) (Stat, error) {
	return verbStat.send(ctx, r.caller, r.Asked(key))
}

// GetFileRequest asks the node to write a file that the client has created.
type GetFileRequest struct {
	AskedRequest
	Root string `query:"root" doc:"the address that key must stand for"`
	Path string `query:"path" doc:"the absolute path of the file, if the node may replace it; empty: it may not"`
}

// MaxRoots is the maximum number of addresses that one call of Keep or Files takes.
const MaxRoots = 4096

// Change is one entry that is not the same in two directories.
type Change struct {
	Op   Op     `json:"op"`
	Path string `json:"path"`          // slash-separated; "" is what the keys name themselves
	Old  *Entry `json:"old,omitempty"` // nil: added
	New  *Entry `json:"new,omitempty"` // nil: removed
}

// Op is the kind of a Change: the entry was added, removed or changed.
type Op string

// The kinds of change. Changed means another kind, content, executable bit or
// link target.
const (
	AddedEntry   Op = "added"
	RemovedEntry Op = "removed"
	ChangedEntry Op = "changed"
)

// CheckRoots returns bad_request unless n, the addresses of a call, is 1 to MaxRoots.
func CheckRoots(n int) error {
	if n < 1 || n > MaxRoots {
		return status.Errorf(status.BadRequest, "%d addresses in one call; 1 to %d are taken", n, MaxRoots)
	}
	return nil
}

// LeastPassed is the size in bytes from which open files are passed to a node, see [PassedFile] and the WriteFile of
// [Stream]. For smaller files it would cost more than it saves.
const LeastPassed = 1 << 20

// PassedFile is an open file to add.
type PassedFile struct {
	// File is a regular file, open for reading. It is read from its beginning, and its offset stays where it is.
	File *os.File
	Name string  // of what is added, without slashes
	Root b3.Root // the file's address if it is known: the file is not read if the store holds that object
}

// AddFileRequest asks the node to add a file that the client has opened.
type AddFileRequest struct {
	Name   string  `query:"name,required" doc:"the name of what is added, without slashes"`
	Root   string  `query:"root" doc:"the file's address, if it is known: a file that the store holds is not read"`
	NoPin  bool    `query:"no_pin" doc:"pins nothing, so the cache may evict what was added"`
	Label  string  `query:"label"` // of the pin
	Target *Target // the durability that the pin asks for; nil: none but what earlier pins asked for
}
