package policy

import _ "allium/gateway" // forbidden
