package api

import (
	"io"
	"os"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// Kind is the kind of entry that an address stands for.
type Kind string

// The kinds of entries (SPEC §1).
const (
	File      Kind = "file"
	Directory Kind = "directory"
	Link      Kind = "link" // a symbolic link; its target is in the directory, and it has no object
)

// Progress says how far a request has come. A total of 0 is not known yet.
type Progress struct {
	Bytes        int64  `json:"bytes"`
	TotalBytes   int64  `json:"total_bytes,omitempty"`
	Resumed      int64  `json:"resumed,omitempty"` // of Bytes, those that the store held before
	Objects      int64  `json:"objects"`
	TotalObjects int64  `json:"total_objects,omitempty"`
	Path         string `json:"path,omitempty"` // what is being worked on
}

// AddOptions modify Add.
type AddOptions struct {
	// NoPin leaves what was added to the cache.
	NoPin  bool    `query:"no_pin" doc:"pins nothing, so the cache may evict what was added"`
	Label  string  `query:"label"` // of the pins
	Target *Target // the durability that the pins ask for; nil: none but what earlier pins asked for

	OnBadEntry OnBadEntry `query:"on_bad_entry" of:"refuse,skip"`
	// Ordered says that the tar has its entries in the order of a directory and nothing twice. It is then added while
	// it arrives, tree by tree; names at the top may come again. Any other tar is sorted first, partly on disk if it is
	// long.
	Ordered bool `query:"ordered"`

	// Roots receives the addresses of the files whose bytes the tar carries, in
	// the tar's order, each once it is stored. They come in batches, from one
	// goroutine at a time, those of a tree before its Added. nil: nobody wants
	// them. A node that cannot report them never calls Roots.
	Roots func([]b3.Root)

	// File is the open file that the tar would have alone. Add may read it in place of the tar, which is then not
	// read. nil: there is none.
	File *PassedFile

	// Count is called with the bytes of files that the add reads, or refers to by
	// address, from any goroutine. Its error ends the add. nil: they are not bounded.
	// It does not leave this process.
	Count func(n int64) error
}

// OnBadEntry is the choice of an add for entries that no directory can hold, or
// that get would refuse.
type OnBadEntry string

// The choices; the empty one is to refuse.
const (
	RefuseBadEntries OnBadEntry = "refuse" // nothing is added
	SkipBadEntries   OnBadEntry = "skip"   // they are left out, and listed
)

// ParseOnBadEntry is the choice that s names.
func ParseOnBadEntry(s string) (OnBadEntry, error) {
	switch o := OnBadEntry(s); o {
	case "", RefuseBadEntries, SkipBadEntries:
		return o, nil
	}
	return "", status.Errorf(status.BadRequest, "%q is no choice for bad entries; write refuse or skip", s)
}

// MaxNotes is the maximum number of entries of each kind that AddNotes name; the
// others are counted.
const MaxNotes = 100

// AddNotes name the entries that were left out of what was added, and those
// that were added under another name. A directory that was left out stands for
// all below it.
type AddNotes struct {
	Skipped      []BadEntry     `json:"skipped,omitempty"`
	SkippedCount int64          `json:"skipped_count"` // of all of them
	Renamed      []RenamedEntry `json:"renamed,omitempty"`
	RenamedCount int64          `json:"renamed_count"` // of all of them
}

// BadEntry is an entry that cannot be added.
type BadEntry struct {
	Path   string `json:"path"` // slash-separated; bytes that are no UTF-8 are written \xff
	Reason string `json:"reason"`
}

// RenamedEntry is an entry whose name, or link target, was brought to Unicode
// normal form C.
type RenamedEntry struct {
	Path string `json:"path"` // as it was
	As   string `json:"as"`   // the name or the target
}

// Added is one top-level entry of what was added.
type Added struct {
	Name  string  `json:"name"` // as in the tar
	Root  b3.Root `json:"root"`
	Kind  Kind    `json:"kind"`
	Files int64   `json:"files"` // files at and below it
	Bytes int64   `json:"bytes"` // their content
	New   int64   `json:"new"`   // bytes of it that the store did not have

	Hashed int64 `json:"hashed"` // files that were read
	Reused int64 `json:"reused"` // files that were known from an earlier add, and not read

	Notes *AddNotes `json:"notes,omitempty"` // of the whole add, with the first that was added
}

// Object heads a stream of bytes.
type Object struct {
	Root       b3.Root `json:"root"`
	Kind       Kind    `json:"kind"`           // Directory: the stream is a tar
	Size       int64   `json:"size"`           // bytes of the object; for a directory, of its manifest
	Name       string  `json:"name,omitempty"` // last element of the key's path
	Executable bool    `json:"executable,omitempty"`

	// Bytes that an earlier fetch, cut short, had left: of Size, or of a directory
	// with all that is below it, which TreeBytes then counts.
	Resumed   int64 `json:"resumed,omitempty"`
	TreeBytes int64 `json:"tree_bytes,omitempty"`

	// the lookup that found the object, for Why; empty: it was not recorded
	LookupID string `json:"lookup_id,omitempty"`
}

// Stream is an object being read. Resumed of a directory is set with the first byte of Body. Body returns io.EOF only
// after the last byte was verified and delivered; any other end is an error with an outcome. A Body with a WriteTo
// method is copied with it. The caller closes Body.
type Stream struct {
	Object
	Body io.ReadCloser

	// WriteFile writes the whole file to f. The caller uses it in place of Body, before it reads from Body. It is nil
	// if the reader cannot write files; Body always works. f is an empty regular file, open for writing and not for
	// appending; no byte reaches it before its group is proved. Unless report was called, Body can be read after an
	// error. WriteFile does not close f and does not write to it after it has returned.
	//
	// A node may instead move a file of its store to path, the absolute path of f, with the
	// permissions of f. Then moved is true, nothing was written to f, and f has no name any more. An
	// empty path rules that out.
	WriteFile func(f *os.File, path string, report ProgressFunc) (moved bool, err error)

	// MoveFile fetches and proves the whole file, and takes it out of the store of a node that ends with the command.
	// The caller uses it in place of Body, before it reads from Body. It is nil for other nodes. It calls move, at most
	// once, with the path of the store's own file, which has the bytes of the object from 0 on and nothing else. move
	// renames the file and returns true, or leaves it and returns false; its error comes back. MoveFile returns false
	// without an error when the file cannot be taken: the store has it whole then, and Body and WriteFile read it from
	// there.
	MoveFile func(report ProgressFunc, move func(path string) (moved bool, err error)) (moved bool, err error)
}

// Written says how a node wrote a file of a client.
type Written struct {
	Moved bool `json:"moved,omitempty"` // a whole file is at the path of the file, which was not written
}

// Entry is one line of a directory.
type Entry struct {
	Name       string  `json:"name"`
	Kind       Kind    `json:"kind"`
	Root       b3.Root `json:"root,omitzero"` // zero for a link
	Size       int64   `json:"size"`          // bytes of the object; for a directory, of its manifest
	Executable bool    `json:"executable,omitempty"`
	Target     string  `json:"target,omitempty"` // of a link
}

// Listing is a directory as the gateway lists it.
type Listing struct {
	Root    b3.Root `json:"root"`
	Path    string  `json:"path"`    // below the address that was asked for
	Entries []Entry `json:"entries"` // in bytewise order of their names
}

// Stat describes an object.
type Stat struct {
	Root    b3.Root `json:"root"`
	CID     string  `json:"cid"`
	Kind    Kind    `json:"kind"`
	Size    int64   `json:"size"`    // bytes of the object
	Groups  int64   `json:"groups"`  // chunk groups of 64 KiB
	Local   bool    `json:"local"`   // the whole object is in the store
	Entries int64   `json:"entries"` // of a directory
	Pins    []Pin   `json:"pins"`
}

// VerifyOptions modify Verify.
type VerifyOptions struct {
	// Repair fetches damaged or missing objects again. It needs a running node.
	Repair bool `query:"repair" doc:"fetches damaged or missing objects again"`
}

// Verified is one object that was read again.
type Verified struct {
	Root     b3.Root        `json:"root"`
	Size     int64          `json:"size"`
	Repaired bool           `json:"repaired,omitempty"` // it was damaged or missing, and was fetched again
	Error    *status.Report `json:"error,omitempty"`    // nil: every byte was proved

	// Of a check of the whole store, about an object that a pin promises and that
	// is absent or damaged.
	Pin   *Pin   `json:"pin,omitempty"`
	Path  string `json:"path,omitempty"`  // from the pin to the object; empty for the pinned object itself
	Again bool   `json:"again,omitempty"` // the object was told of before; this says who promises it
}

// PinOptions modify Pin.
type PinOptions struct {
	Recursive bool
	Label     string
	Target    *Target // the durability that the pin asks for; nil leaves that of the pin which is replaced
}

// Pin keeps an object in the store.
type Pin struct {
	Root      b3.Root   `json:"root"`
	Recursive bool      `json:"recursive"`
	Label     string    `json:"label,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	Target    *Target   `json:"target,omitempty"` // the durability that it asks for

	// Size is the bytes of the object and, if the pin is recursive, of the files below it, each as
	// often as it is named. Only Pins sets it.
	Size int64 `json:"size,omitempty"`
	// AtLeast says that there is more: something is not stored, or the listing looked at enough.
	AtLeast bool `json:"at_least,omitempty"`
}

// Fetched is the result of Fetch.
type Fetched struct {
	Root    b3.Root `json:"root"`
	Kind    Kind    `json:"kind"`
	Objects int64   `json:"objects"`
	Bytes   int64   `json:"bytes"`
	New     int64   `json:"new"`               // bytes that came from the network
	Resumed int64   `json:"resumed,omitempty"` // bytes that an earlier fetch, cut short, had left

	LookupID string `json:"lookup_id,omitempty"` // the lookup that found it, for Why
}

// Trace is the course of one lookup of providers. A lookup that never began, since
// its key was wrong for example, leaves it empty.
type Trace struct {
	// End is why it ended: satisfied (the limit was reached), converged (the
	// closest peers that answer have been asked), hop_exceeded, probe_exceeded,
	// timed_out, no_peers (nobody is known), canceled.
	End    string  `json:"end"`
	Hops   int     `json:"hops"`    // of the last answer that counted; 0: none did
	Probes int     `json:"probes"`  // sent, hedges included
	Hedges int     `json:"hedges"`  // of them in place of a late one
	TookMS float64 `json:"took_ms"` // the whole lookup
	Steps  []Step  `json:"steps"`   // the probes in the order sent, at most 128
}

// Step is one probe of a lookup: a question to one peer.
type Step struct {
	Peer    string  `json:"peer"`
	Hop     int     `json:"hop"`      // 1: from the node's own routing table; n+1: named by a peer of hop n
	Hedge   bool    `json:"hedge"`    // sent in place of a late probe
	StartMS float64 `json:"start_ms"` // since the start of the lookup
	// until the answer, the failure or the cancel, with the dial where there was no connection; no round-trip time
	TookMS float64 `json:"took_ms"`

	// Outcome is ok; timeout (no answer in time); late (given up, its place was
	// needed for another); canceled (the lookup ended first); or what the call
	// failed with (SPEC §3).
	Outcome   string `json:"outcome"`
	Closer    int    `json:"closer"`    // peers it named
	Providers int    `json:"providers"` // providers it brought that nobody had before
	Shared    int    `json:"shared"`    // leading bits that the peer has in common with the key, in the key space
}

// Announced says who took the record.
type Announced struct {
	Root  b3.Root `json:"root"`
	Peers int     `json:"peers"` // that acknowledged it
}

// ID is the identity of a node and the addresses at which it listens (SPEC §11).
type ID struct {
	ID      string   `json:"id"`
	Addrs   []string `json:"addrs"`
	Network string   `json:"network,omitempty"` // fingerprint of the private network; empty: the public one
	Gateway string   `json:"gateway"`
	Admin   string   `json:"admin"`

	// the gateway by address, where Gateway has its certificate's name
	GatewayLocal string `json:"gateway_local,omitempty"`
	Redirect     string `json:"redirect,omitempty"` // the listener that sends browsers to https

	// URLs of the gateway below whose hosts each root and each name has its own subdomain
	Origins []string `json:"origins,omitempty"`

	Sites []Site `json:"sites,omitempty"` // websites of gateway.sites that are all of what their key stands for
}

// Domains returns the URLs of Sites by their keys.
func (id ID) Domains() map[string][]string {
	all := make(map[string][]string, len(id.Sites))
	for _, s := range id.Sites {
		all[s.Key] = append(all[s.Key], s.URL)
	}
	return all
}

// Site is a website with its own domain.
type Site struct {
	Key string `json:"key"` // the address or the name that it serves
	URL string `json:"url"`
}

// Peer is a connection.
type Peer struct {
	ID        string  `json:"id"`
	Addr      string  `json:"addr"`
	Transport string  `json:"transport"`
	Direction string  `json:"direction"`        // "in" or "out"
	Bucket    *int    `json:"bucket"`           // of the routing table; nil: it is not in the table
	Agent     string  `json:"agent,omitempty"`  // as it said in HELLO
	AgeMS     int64   `json:"age_ms"`           // of the connection
	RTTMS     float64 `json:"rtt_ms,omitempty"` // 0: not measured
	Streams   int     `json:"streams"`
}

// Seeds holds the seeds, manifest and remembered peers with which a node finds the network (SPEC §5).
type Seeds struct {
	Seeds      []Seed        `json:"seeds"`
	Manifest   *SeedManifest `json:"manifest,omitempty"` // nil: none is configured
	Remembered int           `json:"remembered"`         // peers that are dialled when no seed answers
}

// Seed is one seed and how it does.
type Seed struct {
	ID          string    `json:"id"`
	Addrs       []string  `json:"addrs"`
	Source      string    `json:"source"` // "config" or "manifest"
	Connected   bool      `json:"connected"`
	LastSuccess time.Time `json:"last_success,omitzero"` // of a dial; zero: never
	LastError   string    `json:"last_error,omitempty"`  // of the last dial
	Tries       int       `json:"tries"`                 // dials since the last success
	NotAfter    time.Time `json:"not_after,omitzero"`    // later it is not dialled; zero: no end
	Gave        []string  `json:"gave"`                  // the peers of its last answer
	GaveAt      time.Time `json:"gave_at,omitzero"`      // zero: it has not answered
}

// SeedManifest is the signed list in force, and what is wrong.
type SeedManifest struct {
	Seq      uint64    `json:"seq"`              // 0: no manifest was accepted
	Signer   string    `json:"signer,omitempty"` // peer id
	NotAfter time.Time `json:"not_after,omitzero"`
	Error    string    `json:"error,omitempty"` // why the file does not count, or that the manifest has expired
}

// Pong is one round trip.
type Pong struct {
	ID    string  `json:"id"`
	RTTMS float64 `json:"rtt_ms"`
}

// Readiness is /readyz (SPEC §10).
type Readiness struct {
	Ready   bool   `json:"ready"`   // reads, writes and network
	Reads   bool   `json:"reads"`   // stored objects are served
	Writes  bool   `json:"writes"`  // new objects are stored
	Network bool   `json:"network"` // this node finds peers, and peers find it
	Gates   []Gate `json:"gates"`   // in the order they are passed
}

// Gate is one condition of readiness.
type Gate struct {
	Name       string    `json:"name"`
	Ready      bool      `json:"ready"`
	Have       int64     `json:"have"`
	Need       int64     `json:"need"`
	Since      time.Time `json:"since,omitzero"` // of the last change
	RetryAfter int64     `json:"retry_after"`    // seconds; 0 when ready
	Fix        string    `json:"fix,omitempty"`  // what to do, in a sentence
}
