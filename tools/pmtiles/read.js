// Reads all tiles of archives with the PMTiles client of browsers and prints them as one line of JSON: for each file
// the zooms of its header, and its tiles, decompressed and in base64, by z/x/y.
// Usage: node read.js MAXZOOM FILE…
import { openSync, readSync } from 'node:fs'
import { PMTiles } from 'pmtiles'

// FileSource reads ranges of a file.
class FileSource {
  constructor(path) {
    this.path = path
    this.fd = openSync(path)
  }
  getKey() {
    return this.path
  }
  async getBytes(offset, length) {
    const p = Buffer.alloc(length)
    const n = readSync(this.fd, p, 0, length, offset)
    return { data: p.buffer.slice(p.byteOffset, p.byteOffset + n) }
  }
}

const [maxZoom, ...files] = process.argv.slice(2)
const seen = []
for (const file of files) {
  const archive = new PMTiles(new FileSource(file))
  const { minZoom, maxZoom: max } = await archive.getHeader()
  const tiles = {}
  for (let z = 0; z <= Number(maxZoom); z++) {
    for (let x = 0; x < 2 ** z; x++) {
      for (let y = 0; y < 2 ** z; y++) {
        const tile = await archive.getZxy(z, x, y)
        if (tile) {
          tiles[`${z}/${x}/${y}`] = Buffer.from(tile.data).toString('base64')
        }
      }
    }
  }
  seen.push({ zooms: [minZoom, max], tiles })
}
process.stdout.write(JSON.stringify(seen) + '\n')
