// Package kind names the kinds of entries that pages show, from directories to fonts.
package kind

import (
	"slices"
	"strings"

	"allium/gateway/content/mediatype"
	"allium/protocols/manifest"
)

// Kind is the kind of an entry as a page shows it: a word and an icon.
type Kind struct {
	Name string // sorted by
	Icon string // ID of a symbol of the page
}

// The kinds of entries. Those of files follow from the content type.
var (
	Directory = Kind{"directory", "directory"}
	Link      = Kind{"link", "link"}
	Image     = Kind{"image", "image"}
	Video     = Kind{"video", "media"}
	Audio     = Kind{"audio", "media"}
	PDF       = Kind{"PDF", "text"}
	Markdown  = Kind{"Markdown", "text"}
	Text      = Kind{"text", "text"}
	WebPage   = Kind{"web page", "text"}
	Archive   = Kind{"archive", "archive"}
	Font      = Kind{"font", "file"}
	File      = Kind{"file", "file"}
)

// names are those of all kinds, sorted.
var names = func() [12]string {
	all := [12]string{
		Directory.Name, Link.Name, Image.Name, Video.Name, Audio.Name, PDF.Name,
		Markdown.Name, Text.Name, WebPage.Name, Archive.Name, Font.Name, File.Name,
	}
	slices.Sort(all[:])
	return all
}()

// Index returns the place of k among all kinds in the order of their names.
func (k Kind) Index() uint8 {
	i, _ := slices.BinarySearch(names[:], k.Name)
	return uint8(i)
}

// Of returns the kind of an entry. That of a file follows from its name alone, so a listing reads no file.
func Of(e *manifest.Entry) Kind {
	switch e.Kind {
	case manifest.Directory:
		return Directory
	case manifest.Link:
		return Link
	}
	return OfType(mediatype.OfName(e.Name))
}

// OfType returns the kind of a file with a content type.
func OfType(contentType string) Kind {
	t, _, _ := strings.Cut(contentType, ";")
	top, _, _ := strings.Cut(t, "/")
	switch t {
	case mediatype.PDF:
		return PDF
	case "text/markdown":
		return Markdown
	case "text/html", "application/xhtml+xml":
		return WebPage
	case "application/zip", "application/x-tar", "application/gzip", "application/x-gzip", "application/x-bzip2",
		"application/x-xz", "application/zstd", "application/x-7z-compressed", "application/x-iso9660-image",
		"application/x-rar-compressed":
		return Archive
	case "application/json", "application/geo+json", "application/x-ndjson", "application/xml", "application/rss+xml",
		"application/atom+xml", "application/rtf":
		return Text
	}
	switch top {
	case "image":
		return Image
	case "video":
		return Video
	case "audio":
		return Audio
	case "text":
		return Text
	case "font":
		return Font
	}
	return File
}
