package manifest

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Bounds of one tree that can be given back to a disk.
const (
	MaxPath      = maxPath    // bytes of the path of an entry from the root of the tree
	MaxNesting   = maxNesting // directories inside each other, the root included
	MaxLinkBytes = 64 << 20   // of the paths and targets of all links
)

// Normal returns the name or link target s in Unicode normal form C, which
// [CheckName] asks for. What is no UTF-8 stays as it is.
func Normal(s string) string {
	if !utf8.ValidString(s) {
		return s
	}
	return norm.NFC.String(s)
}

// NameProblem says why name cannot stand in a directory (see [CheckName]), ""
// when it can.
func NameProblem(name string) string { return nameProblem(name) }

// PathProblem says why an entry at path could not be extracted, which is
// slash-separated and relative to the root of its tree, for its place, ""
// when it could.
func PathProblem(path string, kind EntryKind) string {
	switch {
	case len(path) > maxPath:
		return fmt.Sprintf("the path has %d bytes, the limit is %d", len(path), maxPath)
	case kind == Directory && strings.Count(path, "/")+2 > maxNesting:
		return fmt.Sprintf("more than %d directories inside each other", maxNesting)
	}
	return ""
}

// LinkProblem says why a link at path, as in [PathProblem], that leads to target could not be
// extracted; "" when it could.
func LinkProblem(path, target string) string {
	if reason := targetProblem(target); reason != "" {
		return reason
	}
	switch {
	case strings.HasPrefix(target, "/"):
		return fmt.Sprintf("the link target %q is absolute", clip(target))
	case LeadsOut(path, target):
		return fmt.Sprintf("the link target %q leads out of the tree, or may", clip(target))
	}
	return ""
}

// LeadsOut reports whether a link at path, as in [PathProblem], could lead out of
// its tree. The link lies in a real
// directory, so ".." at the start climbs what it seems to; after a name it may
// not, since that name can be a link to a place higher up. A target that only
// climbs first and never too far ends inside; the links it passes do the same.
func LeadsOut(path, target string) bool {
	depth := strings.Count(path, "/") // directories between the link and the root
	if strings.HasPrefix(target, "/") {
		return true
	}
	named := false
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; named || depth < 0 {
				return true
			}
		default:
			named = true
		}
	}
	return false
}
