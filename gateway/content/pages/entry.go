package pages

import (
	"html"
	"io"
	"strconv"

	"allium/gateway/content/kind"
	"allium/gateway/content/mediatype"
	"allium/gateway/exchange"
	"allium/internal/limits"
	"allium/protocols/manifest"
)

// maxThumbnail is the largest image that a gallery shows, in bytes. A larger one has an icon there.
const maxThumbnail = 8 << 20

// shownEntry is an entry as a listing shows it. Its texts are HTML: special characters are escaped.
type shownEntry struct {
	kind.Kind
	name, url string // a directory's end with a slash
	note      string
	size      string // in words; empty but for a file
	file      bool
}

// show returns how e is shown.
func show(e *manifest.Entry) shownEntry {
	v := shownEntry{
		Kind: kind.Of(e), file: e.Kind == manifest.File,
		name: html.EscapeString(exchange.EscapeName(e.Name)), url: html.EscapeString(exchange.PercentEncode(e.Name)),
	}
	switch {
	case e.Kind == manifest.Directory:
		v.name, v.url = v.name+"/", v.url+"/"
	case e.Kind == manifest.Link:
		v.note = "→ " + html.EscapeString(exchange.EscapeName(e.Target))
	case e.Executable:
		v.note = "executable"
	}
	if v.file {
		v.size = limits.Bytes(e.Size).Human()
	}
	return v
}

// Entry implements [Writer]. Templates would take sixty times as long, and a mirror reads every listing.
func (l *Listing) Entry(w io.Writer, e *manifest.Entry) error {
	l.All++
	if !l.filter.Match(e.Name) {
		return nil
	}
	l.Shown.Add(e)
	v := show(e)
	l.line = l.line[:0]
	if l.Gallery {
		l.tile(e, v)
	} else {
		l.row(e, v)
	}
	_, err := w.Write(l.line)
	return err
}

// put appends parts to the line of an entry.
func (l *Listing) put(parts ...string) {
	for _, p := range parts {
		l.line = append(l.line, p...)
	}
}

// icon appends the icon of an entry.
func (l *Listing) icon(id string) {
	l.put(`<svg class="`, id, `" aria-hidden="true"><use href="#`, id, `"/></svg>`)
}

// row appends an entry of the table. Its first link is the entry itself.
func (l *Listing) row(e *manifest.Entry, v shownEntry) {
	l.put(`<tr><td class="name">`)
	l.icon(v.Icon)
	l.put(`<a href="`, v.url, `">`, v.name, `</a>`)
	if v.note != "" {
		l.put(`<span class="note">`, v.note, `</span>`)
	}
	l.put(`</td><td class="kind">`, v.Name, `</td><td class="size"`)
	if v.file {
		l.put(` title="`, strconv.FormatInt(e.Size, 10), ` bytes"`)
	}
	l.put(`>`, v.size, `</td><td class="hash">`)
	object := ""
	switch {
	case l.Address == "":
	case !e.Root.IsZero():
		address := e.Root.String()
		object = html.EscapeString(l.Prefix) + "/o/" + address
		l.put(`<a class="mono" rel="nofollow" href="`, object, `" title="`, address, `">`, e.Root.Hex()[:8], `</a>`)
		object += "/"
	}
	l.put(`</td><td class="save">`)
	if v.file && FilePage(v.Kind) != "" {
		l.put(`<button form="preview" formaction="`, v.url, `" name="view" value="`, ViewFile,
			`" aria-label="Look at `, v.name, `"><svg aria-hidden="true"><use href="#look"/></svg></button>`)
	}
	if v.file {
		l.put(`<a rel="nofollow" href="`, object, v.url, `" download aria-label="Download `, v.name,
			`"><svg aria-hidden="true"><use href="#download"/></svg></a>`)
	}
	l.put("</td></tr>\n")
}

// tile appends an entry of the gallery. It leads to the page of the entry, if there is one.
func (l *Listing) tile(e *manifest.Entry, v shownEntry) {
	page, below := v.url, v.size
	switch {
	case e.Kind == manifest.Directory:
		page += "?view=" + ViewGallery
	case v.file:
		page += FilePage(v.Kind)
	}
	if !v.file {
		below = v.Name
	}
	l.put(`<li><a rel="nofollow" href="`, page, `"><span class="picture">`)
	l.icon(v.Icon)
	if v.file && v.Kind == kind.Image && e.Size <= maxThumbnail {
		l.put(`<img src="`, v.url, `" alt="" loading="lazy" decoding="async">`)
	}
	l.put(`</span><span class="caption">`, v.name, `</span></a><span class="note">`, below, "</span></li>\n")
}

// FilePage returns the query with which a file's URL leads to the page of the file, and "" for a web page, which is a
// page itself.
func FilePage(k kind.Kind) string {
	if k == kind.WebPage {
		return ""
	}
	return "?view=" + ViewFile
}

// OfName returns [FilePage] of the kind of a file with that name.
func OfName(name string) string { return FilePage(kind.OfType(mediatype.OfName(name))) }
