const cents = { adults: 1450, children: 600 };
document.getElementById('price').textContent = `€ ${(cents.adults / 100).toFixed(2)}`;
