package fsys

// Names in a store's directory. FORMAT.md says what each contains.
const (
	FileFormat  = "FORMAT"
	FileLock    = "LOCK"
	DirIndex    = "index"
	DirSegments = "seg"
	DirObjects  = "obj"
	DirPart     = "part"
	DirTemp     = "tmp"
	DirBallast  = "ballast"

	DirDamagedIndex = "index.damaged" // the last index that a start replaced by an empty one
	DirQuarantine   = "quarantine"    // created when it is needed
)
