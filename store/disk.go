package store

const maxRecordSize = 1 << 17

func newDisk(cfg Config, deps Deps) backend { return newMemory(cfg.MemoryBytes) }
