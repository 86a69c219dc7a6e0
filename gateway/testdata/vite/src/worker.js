onmessage = (e) => postMessage(e.data.toUpperCase());
