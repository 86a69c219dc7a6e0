package gateway

import _ "allium/resolver" // forbidden
