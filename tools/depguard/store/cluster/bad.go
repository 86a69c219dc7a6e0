package cluster

import _ "allium/node" // forbidden
