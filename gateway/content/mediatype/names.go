// Package mediatype tells the content type of bytes: by the name of their file, and by the first bytes
// whether text is UTF-8.
package mediatype

import (
	"path"
	"strings"
)

// mimeTypes maps file extensions to content types. The table is fixed, because the answer
// must not depend on the MIME files of this machine. Text is labeled UTF-8, except formats
// that declare their own encoding.
var mimeTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".htm": "text/html; charset=utf-8", ".xhtml": "application/xhtml+xml",
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8",
	".json": "application/json", ".map": "application/json", ".geojson": "application/geo+json",
	".jsonl": "application/x-ndjson", ".ndjson": "application/x-ndjson",
	".xml": "application/xml", ".rss": "application/rss+xml", ".atom": "application/atom+xml",
	".wasm": "application/wasm", ".webmanifest": "application/manifest+json",
	".pdf": PDF, ".epub": "application/epub+zip", ".rtf": "application/rtf",

	".txt": mimeText, ".text": mimeText, ".log": mimeText, ".rst": mimeText, ".tex": mimeText,
	".md": "text/markdown; charset=utf-8", ".csv": "text/csv; charset=utf-8",
	".tsv": "text/tab-separated-values; charset=utf-8",
	".go":  mimeText, ".mod": mimeText, ".sum": mimeText, ".rs": mimeText, ".c": mimeText, ".h": mimeText,
	".cc": mimeText, ".cpp": mimeText, ".hpp": mimeText, ".s": mimeText,
	".py": mimeText, ".rb": mimeText, ".pl": mimeText, ".lua": mimeText, ".java": mimeText, ".kt": mimeText,
	".swift": mimeText, ".ts": mimeText, ".tsx": mimeText, ".jsx": mimeText,
	".sh": mimeText, ".bash": mimeText, ".bat": mimeText, ".ps1": mimeText, ".sql": mimeText,
	".proto": mimeText, ".diff": mimeText, ".patch": mimeText,
	".toml": mimeText, ".yaml": mimeText, ".yml": mimeText, ".ini": mimeText, ".conf": mimeText,
	".cfg": mimeText, ".env": mimeText,

	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif",
	".webp": "image/webp", ".avif": "image/avif", ".jxl": "image/jxl", ".svg": "image/svg+xml",
	".ico": "image/vnd.microsoft.icon", ".bmp": "image/bmp", ".tif": "image/tiff", ".tiff": "image/tiff",
	".mp3": "audio/mpeg", ".m4a": "audio/mp4", ".ogg": "audio/ogg", ".opus": "audio/ogg", ".oga": "audio/ogg",
	".flac": "audio/flac", ".wav": "audio/wav",
	".mp4": "video/mp4", ".m4v": "video/mp4", ".webm": "video/webm", ".ogv": "video/ogg",
	".mov": "video/quicktime", ".mkv": "video/x-matroska", ".vtt": "text/vtt; charset=utf-8",
	".m3u8": "application/vnd.apple.mpegurl", ".mpd": "application/dash+xml",
	".woff": "font/woff", ".woff2": "font/woff2", ".ttf": "font/ttf", ".otf": "font/otf",

	".zip": "application/zip", ".tar": "application/x-tar", ".gz": "application/gzip", ".tgz": "application/gzip",
	".bz2": "application/x-bzip2", ".xz": "application/x-xz", ".zst": "application/zstd",
	".7z": "application/x-7z-compressed", ".iso": "application/x-iso9660-image",
	".pmtiles": "application/vnd.pmtiles", ".mbtiles": "application/vnd.sqlite3",
	".parquet": "application/vnd.apache.parquet",
	".sqlite":  "application/vnd.sqlite3", ".bin": "application/octet-stream",
}

// PDF is the content type of PDF files.
const PDF = "application/pdf"

const mimeText = "text/plain; charset=utf-8"

// OfName returns the content type of a file name's extension, or "" for an unknown one.
func OfName(name string) string { return mimeTypes[strings.ToLower(path.Ext(name))] }

// IsDocument reports whether a browser opens content of this type as a document that can
// hold scripts or forms.
func IsDocument(contentType string) bool {
	t, _, _ := strings.Cut(contentType, ";")
	switch t = strings.TrimSpace(t); t {
	case "text/html", "text/xml", "application/xml", PDF:
		return true
	}
	return strings.HasSuffix(t, "+xml")
}
