package resolver

import _ "allium/node" // forbidden
