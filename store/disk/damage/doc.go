// Package damage keeps a store's list of damage and its quarantine.
//
// [List] holds the findings of recoveries and checks: places in the store whose content is
// not what was written there. The list is saved in the file DAMAGE, so that findings outlive
// a restart. A finding is open until it is mended, repaired or accepted. [Quarantine] holds
// files that belong to no object, in the directory quarantine/.
//
// A recovery that finds damage calls [List.Add], which counts it, logs it and writes the
// file. [Quarantine.Take] moves files and adds their finding. When a repair brings an object
// back, [List.Restored] or [List.Settle] ends the findings whose objects are all present. An
// operator ends the remaining ones with [List.Accept].
package damage
