package manifest

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"allium/protocols/b3"
)

// The bounds of one entry, in bytes of UTF-8.
const (
	MaxName   = 255  // longest name
	MaxTarget = 4096 // longest link target
)

// EntryKind is the kind of an entry. The directory states it; the content does
// not. A file whose bytes are a manifest is still a file (SPEC §1).
type EntryKind uint8

// The kinds, with the numbers of OAP1.md §11.
const (
	File EntryKind = iota
	Directory
	Link
)

// String returns "file", "directory" or "link".
func (k EntryKind) String() string {
	switch k {
	case File:
		return "file"
	case Directory:
		return "directory"
	case Link:
		return "link"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Entry is one name in a directory.
type Entry struct {
	Name string    // see [NameProblem]
	Kind EntryKind // decides which of the fields below may be set
	Root b3.Root   // address of the content; zero for a link
	// Size is the size in bytes of the object at Root: the file, or the root node
	// of the directory (at most MaxNode). It is 0 for a link.
	Size       int64
	Executable bool   // files only
	Target     string // links only: any UTF-8 without NUL, 1 to MaxTarget bytes
}

// NameProblem returns why name is no valid entry name, or "" if it is valid: UTF-8 in
// Unicode normal form C, 1 to MaxName bytes, neither "." nor "..", and without "/" and NUL.
func NameProblem(name string) string {
	switch {
	case name == "":
		return "the name is empty"
	case name == "." || name == "..":
		return "the name is reserved"
	case len(name) > MaxName:
		return fmt.Sprintf("the name has %d bytes, the limit is %d", len(name), MaxName)
	case plainASCII(name):
		return ""
	case !utf8.ValidString(name):
		return "the name is not UTF-8"
	case strings.ContainsAny(name, "/\x00"):
		return "the name contains a slash or a NUL"
	case !norm.NFC.IsNormalString(name):
		return "the name is not in Unicode normal form C"
	}
	return ""
}

// plainASCII reports whether name is ASCII without "/" and NUL, as most names are: it needs no tables of Unicode.
func plainASCII(name string) bool {
	for i := range len(name) {
		if c := name[i]; c == 0 || c == '/' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// targetProblem returns why target is no valid link target, or "". A valid target
// may lead anywhere; [LinkProblem] decides whether a link can be extracted.
func targetProblem(target string) string {
	switch {
	case target == "":
		return "the link has no target"
	case len(target) > MaxTarget:
		return fmt.Sprintf("the link target has %d bytes, the limit is %d", len(target), MaxTarget)
	case !utf8.ValidString(target):
		return "the link target is not UTF-8"
	case strings.IndexByte(target, 0) >= 0:
		return "the link target contains a NUL"
	}
	return ""
}

// check returns an *EntryError unless the entry is valid.
func (e *Entry) check() error {
	if reason := NameProblem(e.Name); reason != "" {
		return invalidEntry(e.Name, "%s", reason)
	}
	if reason := e.problem(); reason != "" {
		return invalidEntry(e.Name, "%s", reason)
	}
	return nil
}

// problem returns what is wrong with the fields other than Name, or "".
func (e *Entry) problem() string {
	if e.Kind == Link {
		if e.Executable || e.Size != 0 || !e.Root.IsZero() {
			return "a link has only a target"
		}
		return targetProblem(e.Target)
	}
	switch {
	case e.Kind > Link:
		return "the kind of the entry is unknown"
	case e.Root.IsZero():
		return "the digest is missing"
	case e.Target != "":
		return "only a link has a target"
	case e.Kind == File && e.Size < 0:
		return "the size is negative"
	case e.Kind == Directory && e.Executable:
		return "only a file is executable"
	case e.Kind == Directory && (e.Size < minNode || e.Size > MaxNode):
		return fmt.Sprintf("no manifest has %d bytes", e.Size)
	}
	return ""
}
