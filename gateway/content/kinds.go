package content

import (
	"slices"
	"strings"

	"allium/gateway/content/mediatype"
	"allium/protocols/manifest"
)

// kind is the kind of an entry as a page shows it: a word and an icon.
type kind struct {
	Name string // sorted by
	Icon string // ID of a symbol of pages.html
}

// The kinds of entries. Those of files follow from the content type.
var (
	kindDirectory = kind{"directory", "directory"}
	kindLink      = kind{"link", "link"}
	kindImage     = kind{"image", "image"}
	kindVideo     = kind{"video", "media"}
	kindAudio     = kind{"audio", "media"}
	kindPDF       = kind{"PDF", "text"}
	kindMarkdown  = kind{"Markdown", "text"}
	kindText      = kind{"text", "text"}
	kindWebPage   = kind{"web page", "text"}
	kindArchive   = kind{"archive", "archive"}
	kindFont      = kind{"font", "file"}
	kindFile      = kind{"file", "file"}
)

// kinds are the names of all kinds, sorted.
var kinds = func() [12]string {
	all := [12]string{
		kindDirectory.Name, kindLink.Name, kindImage.Name, kindVideo.Name, kindAudio.Name, kindPDF.Name,
		kindMarkdown.Name, kindText.Name, kindWebPage.Name, kindArchive.Name, kindFont.Name, kindFile.Name,
	}
	slices.Sort(all[:])
	return all
}()

// kindOf returns the kind of an entry. That of a file follows from its name alone, so a listing reads no file.
func kindOf(e *manifest.Entry) kind {
	switch e.Kind {
	case manifest.Directory:
		return kindDirectory
	case manifest.Link:
		return kindLink
	}
	return kindOfType(mediatype.OfName(e.Name))
}

// kindOfType returns the kind of a file with a content type.
func kindOfType(contentType string) kind {
	t, _, _ := strings.Cut(contentType, ";")
	top, _, _ := strings.Cut(t, "/")
	switch t {
	case mediatype.PDF:
		return kindPDF
	case "text/markdown":
		return kindMarkdown
	case "text/html", "application/xhtml+xml":
		return kindWebPage
	case "application/zip", "application/x-tar", "application/gzip", "application/x-gzip", "application/x-bzip2",
		"application/x-xz", "application/zstd", "application/x-7z-compressed", "application/x-iso9660-image",
		"application/x-rar-compressed":
		return kindArchive
	case "application/json", "application/geo+json", "application/x-ndjson", "application/xml", "application/rss+xml",
		"application/atom+xml", "application/rtf":
		return kindText
	}
	switch top {
	case "image":
		return kindImage
	case "video":
		return kindVideo
	case "audio":
		return kindAudio
	case "text":
		return kindText
	case "font":
		return kindFont
	}
	return kindFile
}

// page returns the query with which a file's URL leads to the page of the file, and "" for a web page, which is a page
// itself.
func (k kind) page() string {
	if k == kindWebPage {
		return ""
	}
	return "?view=" + viewPreview
}

// pageOf returns page of the kind of a file with that name.
func pageOf(name string) string { return kindOfType(mediatype.OfName(name)).page() }
