document.body.dataset.script = "ran";
