package fsys

// Names in a store's directory; FORMAT.md says what is in each.
const (
	FileFormat  = "FORMAT"
	FileLock    = "LOCK"
	DirIndex    = "index"
	DirSegments = "seg"
	DirObjects  = "obj"
	DirPart     = "part"
	DirTemp     = "tmp"
	DirBallast  = "ballast"

	DirDamagedIndex = "index.damaged" // the last index that was set aside
	DirQuarantine   = "quarantine"    // made when it is needed
)
