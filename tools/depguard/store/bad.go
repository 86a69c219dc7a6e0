package store

import _ "allium/gateway" // forbidden
