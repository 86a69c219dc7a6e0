// Uploads a file with tus-js-client and prints what the client saw as one line of JSON.
// Usage: node upload.js HOW ENDPOINT TOKEN FILE, where HOW is plain, pieces, resume or parallel.
import { readFileSync } from 'node:fs'
import { Upload } from 'tus-js-client'

const [how, endpoint, token, file] = process.argv.slice(2)
const bytes = readFileSync(file)
const piece = 64 * 1024
const seen = { methods: [], offset: 0, location: '', error: '' }

// upload runs one upload until it succeeds, fails, or ended is called by more.
function upload(more) {
  return new Promise((resolve) => {
    const u = new Upload(bytes, {
      endpoint,
      headers: { Authorization: `Bearer ${token}` },
      onAfterResponse(request, response) {
        const method = request.getMethod()
        seen.methods.push(method)
        if (method === 'HEAD') {
          seen.offset = Number(response.getHeader('Upload-Offset'))
        }
        seen.location = response.getHeader('Location') ?? seen.location
      },
      onSuccess() {
        resolve(u)
      },
      onError(err) {
        seen.error = err.message
        resolve(u)
      },
      ...more(() => u.abort().then(() => resolve(u))),
    })
    u.start()
  })
}

switch (how) {
  case 'plain':
    await upload(() => ({}))
    break
  case 'pieces':
    await upload(() => ({ chunkSize: piece }))
    break
  case 'resume': {
    const begun = await upload((ended) => ({ chunkSize: piece, onChunkComplete: ended }))
    await upload(() => ({ uploadUrl: begun.url }))
    break
  }
  case 'parallel':
    await upload(() => ({ parallelUploads: 2 }))
    break
  default:
    throw new Error(`there is no ${how}`)
}
console.log(JSON.stringify(seen))
