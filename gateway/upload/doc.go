// Package upload stores objects that clients send over HTTP: whole ones with PUT and POST, and
// resumable uploads in parts, which survive cut connections and restarts.
//
// Invariants:
//
//   - An acknowledged object is verified and durable. Nothing of it is visible before.
//   - Everything that can refuse a request does so before the body is read.
//   - The client's capability limits the operation, the object, the label and the bytes.
//
// One request, walked through: PUT /o/b3:…. putObject parses the address and builds the
// options (uploadOptions), which checks the denylist and the capability. present asks the store
// for the object; if it is there, the body is not read. Otherwise receive opens the body,
// decodes it, limits it to what the capability allows and passes it to [Store.Put], which
// verifies it. answerStored sends the address and the size. POST /u, PATCH and HEAD /u/{id} do
// the same in parts (beginUpload, continueUpload, uploadState).
package upload
