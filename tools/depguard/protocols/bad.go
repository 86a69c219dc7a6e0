package protocols

import _ "allium/node" // forbidden
